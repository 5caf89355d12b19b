#include "core/planner/partition/methods/skip_aware.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/planner/partition/boundary_traffic.h"
#include "core/planner/partition/methods/skip_tables.h"
#include "core/planner/partition/solvers/folded.h"

namespace dpipe {
namespace {

constexpr int64_t kInfinity = std::numeric_limits<int64_t>::max();
constexpr int kFewLayers = 24;

bool IsV(const PartitionProblem& problem) {
  if (problem.num_stages() != 2 * problem.num_devices()) return false;
  for (int k = 0; k < problem.num_devices(); ++k) {
    const std::vector<int> here = {k};
    if (problem.devices_of_stage[k] != here) return false;
    if (problem.devices_of_stage[problem.num_stages() - 1 - k] != here) return false;
  }
  return true;
}

// Returns the time per byte per sample over the slowest link between neighbours.
double ByteTime(const PartitionProblem& problem) {
  const std::vector<DeviceSeat> seats = SeatsOfDevices(problem, false);
  const int64_t many = int64_t{1} << 30;
  Nanos slowest = 0;
  for (int d = 0; d + 1 < problem.num_devices(); ++d) {
    slowest = std::max(slowest, problem.costs->TransferNs(many, 0, seats[d], seats[d + 1]) -
                                    problem.costs->TransferNs(0, 0, seats[d], seats[d + 1]));
  }
  return static_cast<double>(slowest) / static_cast<double>(many);
}

struct Solution {
  Nanos largest = 0;
  int64_t bytes = kInfinity;
  std::vector<LayerRange> stages;  // empty: no solution
};

class Table {
 public:
  Table(const PartitionProblem& problem, std::vector<DeviceSeat> seats)
      : costs_(*problem.costs),
        seats_(std::move(seats)),
        num_layers_(costs_.num_layers()),
        num_devices_(problem.num_devices()),
        skips_(costs_.values(), num_layers_) {
    times_.resize(num_devices_);
    for (int d = 0; d < num_devices_; ++d) {
      times_[d].assign((num_layers_ + 1) * (num_layers_ + 1), 0);
      for (int i = 0; i < num_layers_; ++i) {
        for (int j = i + 1; j <= num_layers_; ++j) {
          times_[d][i * (num_layers_ + 1) + j] = costs_.ComputeNs(seats_[d], {i, j});
        }
      }
    }
  }

  // Returns the minimum traffic with device sums of at most `limit`.
  Solution Solve(Nanos limit) {
    limit_ = limit;
    states_.assign(num_devices_ + 1, std::vector<State>((num_layers_ + 1) * (num_layers_ + 1)));
    At(0, 0, num_layers_).bytes = 0;
    for (int d = 0; d < num_devices_; ++d) {
      const bool last = d == num_devices_ - 1;
      for (int front = 1; front < num_layers_; ++front) {
        for (int back = front; back <= (last ? front : num_layers_ - 1); ++back) {
          if (last || InnerDevicesCanTake(d + 1, front, back)) Reach(d, front, back);
        }
      }
    }
    Solution best;
    int meet = -1;
    for (int i = 0; i <= num_layers_; ++i) {
      if (At(num_devices_, i, i).bytes >= best.bytes) continue;
      best.bytes = At(num_devices_, i, i).bytes;
      meet = i;
    }
    if (meet >= 0) Backtrack(meet, best);
    return best;
  }

 private:
  struct State {
    int64_t bytes = kInfinity;
    int front = 0, back = 0;  // the previous state
  };

  State& At(int d, int i, int j) { return states_[d][i * (num_layers_ + 1) + j]; }
  const State& At(int d, int i, int j) const { return states_[d][i * (num_layers_ + 1) + j]; }

  Nanos Time(int d, int i, int j) const { return times_[d][i * (num_layers_ + 1) + j]; }

  bool InnerDevicesCanTake(int d, int i, int j) const {
    Nanos least = std::numeric_limits<Nanos>::max();
    for (int e = d; e < num_devices_; ++e) {
      least = std::min(least, Time(e, i, j));
    }
    return least <= (num_devices_ - d) * limit_ && j - i >= 2 * (num_devices_ - d);
  }

  // Sets the state after device d that takes [i, front) and [back, j), by the best i and j. The
  // memory check takes much longer than all else, and the best state usually fits. So first the
  // best one is found without it; only if that does not fit are all better ones checked.
  void Reach(int d, int front, int back) {
    const State best = BestBefore(d, front, back, /*checks_memory=*/false);
    if (best.bytes == kInfinity) return;
    At(d + 1, front, back) = Fits(d, {best.front, front}, {back, best.back})
                                 ? best
                                 : BestBefore(d, front, back, /*checks_memory=*/true);
  }

  // Of equal traffic, prefers the lowest i, then the lowest j.
  State BestBefore(int d, int front, int back, bool checks_memory) const {
    const int later = num_devices_ - 1 - d;  // boundaries from here inwards, on each side
    const LayerRange all_front{0, front}, inner{front, back}, all_back{back, num_layers_};
    const int64_t crossing =
        later == 0 ? 0 : skips_.Bytes(all_front, inner) + skips_.Bytes(inner, all_back);
    State best;
    for (int i = d == 0 ? 0 : FirstFront(d, front); i < (d == 0 ? 1 : front); ++i) {
      const Nanos left = limit_ - Time(d, i, front);
      if (left < 0) continue;
      for (int j = d == 0 ? num_layers_ : back + 1; j <= num_layers_; ++j) {
        if (Time(d, back, j) > left) break;
        int64_t bytes = At(d, i, j).bytes;
        if (bytes >= best.bytes) continue;
        if (later > 0) bytes += crossing + TrafficOfDevice(later, i, front, back, j);
        if (bytes >= best.bytes) continue;
        // Memory never falls when a layer is added at a stage's end.
        if (checks_memory && !Fits(d, {i, front}, {back, j})) break;
        best = {bytes, i, j};
      }
    }
    return best;
  }

  // Returns the first i with [i, front) within the limit.
  int FirstFront(int d, int front) const {
    int out = -1, in = front;  // the answer is in (out, in]
    while (in - out > 1) {
      const int middle = out + (in - out) / 2;
      (Time(d, middle, front) <= limit_ ? in : out) = middle;
    }
    return in;
  }

  // Returns what device d's ranges [i, front) and [back, j) add to the traffic over all boundaries,
  // in addition to what crosses its inner ones; `later` of them are further in, on each side.
  int64_t TrafficOfDevice(int later, int i, int front, int back, int j) const {
    // Values made here and read further out, or the reverse, cross all inner boundaries.
    return skips_.BytesReadBetween(front, {i, front}, {back, j}) +
           2 * later *
               (skips_.Bytes({i, front}, {j, num_layers_}) + skips_.Bytes({0, i}, {back, j}));
  }

  bool Fits(int d, LayerRange front, LayerRange back) const {
    const int64_t limit = costs_.MemoryLimitBytes(seats_[d]);
    if (limit == 0) return true;
    return costs_.MemoryBytes(d, seats_[d], {{d, 0, front}, {2 * num_devices_ - 1 - d, 0, back}}) <=
           limit;
  }

  void Backtrack(int meet, Solution& solution) {
    solution.stages.resize(2 * num_devices_);
    for (int d = num_devices_, i = meet, j = meet; d > 0; --d) {
      const State& state = At(d, i, j);
      const LayerRange front{state.front, i}, back{j, state.back};
      solution.stages[d - 1] = front;
      solution.stages[2 * num_devices_ - d] = back;
      solution.largest = std::max(solution.largest, costs_.ComputeNs(seats_[d - 1], front) +
                                                        costs_.ComputeNs(seats_[d - 1], back));
      i = state.front;
      j = state.back;
    }
  }

  const StageCosts& costs_;
  const std::vector<DeviceSeat> seats_;
  const int num_layers_;
  const int num_devices_;
  const SkipTables skips_;
  std::vector<std::vector<Nanos>> times_;  // [device][begin, end]
  Nanos limit_ = 0;
  std::vector<std::vector<State>> states_;  // [devices][front, back]
};

// Returns no stages if nothing fits.
Solution BestOf(const PartitionProblem& problem, bool recompute, Nanos least_sum) {
  Table table(problem, SeatsOfDevices(problem, recompute));
  const double byte_ns = ByteTime(problem);
  const auto cost = [&](const Solution& s) {
    return static_cast<double>(problem.num_micro_batches - 1) * static_cast<double>(s.largest) +
           byte_ns * static_cast<double>(s.bytes);
  };
  const bool few = problem.costs->num_layers() <= kFewLayers;
  Nanos limit = few ? std::numeric_limits<Nanos>::max() / 64 : least_sum + least_sum / 16;
  Solution best;
  while (true) {
    Solution solution = table.Solve(limit);
    if (solution.stages.empty()) break;
    limit = std::min(solution.largest, few ? limit : limit - limit / 100) - 1;
    if (best.stages.empty() || cost(solution) < cost(best)) best = std::move(solution);
  }
  return best;
}

}  // namespace

Nanos SkipAwareCost(const PartitionProblem& problem, const std::vector<LayerRange>& stages,
                    const std::vector<DeviceSeat>& seats) {
  const std::vector<std::vector<HeldStage>> held = HeldStages(problem, stages);
  Nanos largest = 0;
  for (int d = 0; d < problem.num_devices(); ++d) {
    Nanos sum = 0;
    for (const HeldStage& stage : held[d]) sum += problem.costs->ComputeNs(seats[d], stage.layers);
    largest = std::max(largest, sum);
  }
  std::vector<int> device_of;
  for (const std::vector<int>& devices : problem.devices_of_stage) {
    device_of.push_back(devices[0]);
  }
  const auto traffic = TrafficOf(problem.costs->values(), stages, device_of);
  double bytes = 0;
  for (size_t k = 0; k < traffic.size(); ++k) {
    if (device_of[k] == device_of[k + 1]) continue;  // the turn of the V
    bytes += static_cast<double>(traffic[k].forward_bytes + traffic[k].gradient_bytes);
  }
  return (problem.num_micro_batches - 1) * largest +
         static_cast<Nanos>(std::llround(bytes * ByteTime(problem)));
}

absl::StatusOr<Partition> PartitionSkipAware(const PartitionProblem& problem) {
  DPIPE_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  if (problem.num_stages() == 1) {
    return FinishPartition(problem, {{0, problem.costs->num_layers()}});
  }
  if (!IsV(problem)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "partitioner 'skip_aware' cuts V placements only (stages k and S-1-k on device k); ",
        "requested ", problem.num_stages(), " stages in ", problem.num_copies(), " copies on ",
        problem.num_devices(), " devices"));
  }
  // Finds the minimum largest sum, and whether anything fits at all.
  DPIPE_ASSIGN_OR_RETURN(const Partition even, PartitionFolded(problem));
  Nanos least_sum = 0;
  const std::vector<std::vector<HeldStage>> held = HeldStages(problem, even.stages);
  for (int d = 0; d < problem.num_devices(); ++d) {
    Nanos sum = 0;
    for (const HeldStage& s : held[d]) sum += problem.costs->ComputeNs(even.seats[d], s.layers);
    least_sum = std::max(least_sum, sum);
  }
  Solution best = BestOf(problem, problem.recompute == Recompute::kFull, least_sum);
  if (best.stages.empty() && problem.recompute == Recompute::kAuto) {
    best = BestOf(problem, true, least_sum);
  }
  return best.stages.empty() ? even : FinishPartition(problem, best.stages);
}

}  // namespace dpipe

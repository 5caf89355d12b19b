#include "core/planner/partition/solvers/pair.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/planner/partition/solvers/nested.h"

namespace dpipe {
namespace {

// Maximum number of (device, first layer, last layer) whose memory is kept in a table.
constexpr size_t kMaxKnownRanges = 4'000'000;

absl::Status CheckSide(const PairProblem& problem, const StageCosts& costs,
                       const std::string& name) {
  if (costs.num_layers() < problem.num_devices()) {
    return absl::InvalidArgumentError(absl::StrCat(problem.num_devices(),
                                                   " stages cannot be cut from the ", name,
                                                   " backbone of ", costs.num_layers(), " layers"));
  }
  for (int d = 0; d < problem.num_devices(); ++d) {
    if (costs.CanReplicate(problem.replicas[d])) continue;
    return absl::InvalidArgumentError(absl::StrCat("device ", d, ": a micro-batch of the ", name,
                                                   " backbone does not divide over its ",
                                                   problem.replicas[d], " ranks"));
  }
  return absl::OkStatus();
}

int64_t MemoryOf(const PairProblem& problem, const std::vector<DeviceSeat>& seats, int d,
                 LayerRange down, LayerRange up) {
  return problem.down->MemoryBytes(d, seats[d], {{d, 0, down}}) +
         problem.up->MemoryBytes(d, seats[d], {{problem.num_devices() - 1 - d, 0, up}});
}

// Returns `link` with a cache by (device, cut): the search repeats its queries many times, and a
// transfer between stages of many devices is slow to compute.
std::function<Nanos(int, int)> Memoized(int num_devices, int num_layers,
                                        std::function<Nanos(int, int)> link) {
  const size_t width = num_layers + 1;
  return [width, link = std::move(link), known = std::vector<Nanos>(num_devices * width, -1)](
             int d, int cut) mutable {
    Nanos& time = known[d * width + cut];
    if (time < 0) time = link(d, cut);
    return time;
  };
}

// Same for the memory of a range of layers.
std::function<int64_t(int, LayerRange)> MemoizedMemory(
    int num_devices, int num_layers, std::function<int64_t(int, LayerRange)> memory) {
  const size_t width = num_layers + 1;
  const size_t num_ranges = num_devices * width * width;
  if (num_ranges > kMaxKnownRanges) return memory;
  return [width, memory = std::move(memory), known = std::vector<int64_t>(num_ranges, -1)](
             int d, LayerRange layers) mutable {
    int64_t& bytes = known[(d * width + layers.begin) * width + layers.end];
    if (bytes < 0) bytes = memory(d, layers);
    return bytes;
  };
}

NestedProblem MakeNested(const PairProblem& problem, const std::vector<DeviceSeat>& seats) {
  NestedProblem nested;
  nested.num_devices = problem.num_devices();
  nested.is_shared = false;
  nested.num_front = problem.down->num_layers();
  nested.num_back = problem.up->num_layers();
  nested.front_time = [&](int d, LayerRange layers) {
    if (layers.empty()) return Nanos{0};
    return problem.num_down_micro_batches * problem.down->ComputeNs(seats[d], layers);
  };
  nested.back_time = [&](int d, LayerRange layers) {
    if (layers.empty()) return Nanos{0};
    return problem.num_up_micro_batches * problem.up->ComputeNs(seats[d], layers);
  };
  nested.memory_grows = !problem.recompute;
  const int last = nested.num_devices - 1;
  const auto front_memory =
      MemoizedMemory(nested.num_devices, nested.num_front, [&](int d, LayerRange layers) {
        return problem.down->MemoryBytes(d, seats[d], {{d, 0, layers}});
      });
  const auto back_memory =
      MemoizedMemory(nested.num_devices, nested.num_back, [&, last](int d, LayerRange layers) {
        return problem.up->MemoryBytes(d, seats[d], {{last - d, 0, layers}});
      });
  nested.fits = [&, front_memory, back_memory](int d, LayerRange front, LayerRange back) {
    const int64_t limit = problem.down->MemoryLimitBytes(seats[d]);
    return limit == 0 || front_memory(d, front) + back_memory(d, back) <= limit;
  };
  nested.front_link = Memoized(nested.num_devices, nested.num_front, [&](int d, int cut) {
    return problem.num_down_micro_batches * problem.down->LinkNs(cut, seats[d], seats[d + 1]);
  });
  nested.back_link = Memoized(nested.num_devices, nested.num_back, [&](int d, int cut) {
    return problem.num_up_micro_batches * problem.up->LinkNs(cut, seats[d + 1], seats[d]);
  });
  return nested;
}

Nanos ExposedSync(const StageCosts& costs, const std::vector<LayerRange>& stages,
                  const std::vector<DeviceSeat>& seat_of_stage) {
  Nanos slack = 0, exposed = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    exposed = std::max(exposed, costs.SyncNs({seat_of_stage[s]}, stages[s]) - slack);
    slack += costs.BackwardNs(seat_of_stage[s], stages[s]);
  }
  return exposed;
}

// Returns the error for evenly divided layers, as an example that does not fit.
absl::Status NothingFitsError(const PairProblem& problem, const std::vector<DeviceSeat>& seats) {
  const int count = problem.num_devices();
  const auto part = [count](const StageCosts& costs, int s) {
    return LayerRange{s * costs.num_layers() / count, (s + 1) * costs.num_layers() / count};
  };
  int worst = 0;
  int64_t most = 0, its_limit = 0;
  for (int d = 0; d < count; ++d) {
    const int64_t need =
        MemoryOf(problem, seats, d, part(*problem.down, d), part(*problem.up, count - 1 - d));
    const int64_t limit = problem.down->MemoryLimitBytes(seats[d]);
    if (d > 0 && need - limit <= most - its_limit) continue;
    worst = d;
    most = need;
    its_limit = limit;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("no partition of two backbones over ", count,
                   " devices fits in memory: with layers ", "divided evenly, device ", worst,
                   " needs ", FormatBytes(most), " and the limit is ", FormatBytes(its_limit)));
}

}  // namespace

absl::StatusOr<PairPartition> PartitionPair(const PairProblem& problem) {
  DPIPE_CHECK(problem.down != nullptr && problem.up != nullptr);
  if (problem.num_devices() < 1) {
    return absl::InvalidArgumentError("a pipeline needs at least 1 device; requested 0");
  }
  DPIPE_RETURN_IF_ERROR(CheckSide(problem, *problem.down, "down"));
  DPIPE_RETURN_IF_ERROR(CheckSide(problem, *problem.up, "up"));
  PairPartition partition;
  partition.seats = ConsecutiveSeats(problem.replicas, problem.recompute);
  const NestedSolution solution = SolveNested(MakeNested(problem, partition.seats));
  if (solution.devices.empty()) return NothingFitsError(problem, partition.seats);
  for (const auto& [front, back] : solution.devices) {
    partition.down.push_back(front);
    partition.up.insert(partition.up.begin(), back);
  }
  partition.largest_load_ns = solution.largest;
  const std::vector<DeviceSeat> reversed(partition.seats.rbegin(), partition.seats.rend());
  partition.exposed_sync_ns = std::max(ExposedSync(*problem.down, partition.down, partition.seats),
                                       ExposedSync(*problem.up, partition.up, reversed));
  const Nanos count = problem.num_down_micro_batches + problem.num_up_micro_batches;
  const Nanos average = (solution.largest + count - 1) / count;
  partition.bound_ns =
      solution.largest + (2 * problem.num_devices() - 2) * average + partition.exposed_sync_ns;
  return partition;
}

}  // namespace dpipe

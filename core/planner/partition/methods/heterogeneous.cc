#include "core/planner/partition/methods/heterogeneous.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/planner/partition/solvers/straight.h"

namespace dpipe {
namespace {

constexpr Nanos kInfinity = std::numeric_limits<Nanos>::max();
constexpr int64_t kMaxMultisets = 4096;

struct Entry {
  Nanos largest = kInfinity;
  int begin = 0;   // first layer of the last stage
  int before = 0;  // class of the previous device; -1 for the first
};

class Ordering {
 public:
  explicit Ordering(const PartitionProblem& problem)
      : problem_(problem),
        costs_(*problem.costs),
        num_layers_(costs_.num_layers()),
        seats_(SeatsOfDevices(problem, problem.recompute == Recompute::kFull)) {
    FindClasses();
  }

  int64_t num_multisets() const {
    int64_t product = 1;
    for (const std::vector<int>& of_class : classes_) {
      product = std::min<int64_t>(product * (of_class.size() + 1), kMaxMultisets + 1);
    }
    return product;
  }

  DeviceOrder Run() {
    const int count = static_cast<int>(classes_.size());
    const std::vector<int> zeros(count, 0);
    int64_t size = num_multisets();
    table_.assign(size,
                  std::vector<std::vector<Entry>>(count, std::vector<Entry>(num_layers_ + 1)));
    for (int64_t used = 0; used < size; ++used) {
      for (int c = 0; c < count; ++c) Extend(Counts(used), c);
    }
    return Backtrack();
  }

 private:
  void FindClasses() {
    std::map<std::pair<Nanos, int64_t>, int> index;
    const LayerRange all{0, num_layers_};
    for (int d = 0; d < problem_.num_devices(); ++d) {
      const std::pair<Nanos, int64_t> key = {costs_.ComputeNs(seats_[d], all),
                                             costs_.MemoryLimitBytes(seats_[d])};
      const auto [at, is_new] = index.try_emplace(key, static_cast<int>(classes_.size()));
      if (is_new) classes_.emplace_back();
      classes_[at->second].push_back(d);
    }
  }

  // Converts a mixed-radix number to the number of devices used per class, and back (Number).
  std::vector<int> Counts(int64_t used) const {
    std::vector<int> counts;
    for (const std::vector<int>& of_class : classes_) {
      counts.push_back(static_cast<int>(used % (of_class.size() + 1)));
      used /= of_class.size() + 1;
    }
    return counts;
  }
  int64_t Number(const std::vector<int>& counts) const {
    int64_t used = 0;
    for (size_t c = classes_.size(); c-- > 0;) used = used * (classes_[c].size() + 1) + counts[c];
    return used;
  }

  // Adds the next device of class c to a multiset.
  void Extend(std::vector<int> counts, int c) {
    if (counts[c] == static_cast<int>(classes_[c].size())) return;
    int stage = 0;
    for (int n : counts) stage += n;
    const int64_t used = Number(counts);
    const DeviceSeat& seat = seats_[classes_[c][counts[c]]];
    for (int u = stage == 0 ? -1 : 0; u < (stage == 0 ? 0 : static_cast<int>(counts.size())); ++u) {
      if (u >= 0 && counts[u] == 0) continue;
      std::vector<int> more = counts;
      ++more[c];
      auto& to = table_[Number(more)][c];
      for (int i = stage; i < (stage == 0 ? 1 : num_layers_); ++i) {
        const Nanos before = u < 0 ? 0 : table_[used][u][i].largest;
        if (before == kInfinity) continue;
        const Nanos link = u < 0 ? 0 : costs_.LinkNs(i, seats_[classes_[u][counts[u] - 1]], seat);
        ExtendFrom(stage, seat, std::max(before, link), i, u, to);
      }
    }
  }

  void ExtendFrom(int stage, const DeviceSeat& seat, Nanos so_far, int i, int u,
                  std::vector<Entry>& to) const {
    const int later = problem_.num_devices() - 1 - stage;
    for (int j = later == 0 ? num_layers_ : i + 1; j <= num_layers_ - later; ++j) {
      const Nanos largest = std::max(so_far, costs_.ComputeNs(seat, {i, j}));
      if (largest >= to[j].largest) continue;
      if (!StageFits(problem_, stage, seat, {i, j})) return;
      to[j] = {largest, i, u};
    }
  }

  DeviceOrder Backtrack() const {
    std::vector<int> counts;
    for (const std::vector<int>& of_class : classes_) {
      counts.push_back(static_cast<int>(of_class.size()));
    }
    const auto& last = table_[Number(counts)];
    int c = 0;
    for (int k = 1; k < static_cast<int>(last.size()); ++k) {
      if (last[k][num_layers_].largest < last[c][num_layers_].largest) c = k;
    }
    DeviceOrder order;
    order.largest = last[c][num_layers_].largest;
    if (order.largest == kInfinity) return order;
    for (int j = num_layers_; c >= 0;) {
      const Entry& entry = table_[Number(counts)][c][j];
      const int device = classes_[c][--counts[c]];
      order.first_ranks.insert(order.first_ranks.begin(), seats_[device].first_rank);
      order.stages.insert(order.stages.begin(), {entry.begin, j});
      j = entry.begin;
      c = entry.before;
    }
    return order;
  }

  const PartitionProblem& problem_;
  const StageCosts& costs_;
  const int num_layers_;
  const std::vector<DeviceSeat> seats_;
  std::vector<std::vector<int>> classes_;               // devices, in rank order
  std::vector<std::vector<std::vector<Entry>>> table_;  // [multiset][last class][layers]
};

}  // namespace

DeviceOrder MinBottleneckOrder(const PartitionProblem& problem) { return Ordering(problem).Run(); }

absl::StatusOr<Partition> PartitionHeterogeneous(const PartitionProblem& problem) {
  DPIPE_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  DPIPE_RETURN_IF_ERROR(CheckStraight(problem, "heterogeneous"));
  for (int r : problem.replicas) {
    if (r == problem.replicas[0]) continue;
    return absl::InvalidArgumentError(absl::StrCat("partitioner 'heterogeneous' orders devices of ",
                                                   "equal replicas; got ", problem.replicas[0],
                                                   " and ", r));
  }
  absl::StatusOr<Partition> in_order = PartitionStraight(problem);
  Ordering ordering(problem);
  if (ordering.num_multisets() > kMaxMultisets) {
    if (!in_order.ok()) return in_order;
    in_order->note = absl::StrCat("the devices keep their order: their classes have more than ",
                                  kMaxMultisets, " multisets, too many to search");
    return in_order;
  }
  const DeviceOrder order = ordering.Run();
  if (order.first_ranks.empty()) return in_order;
  PartitionProblem ordered = problem;
  ordered.first_ranks = order.first_ranks;
  absl::StatusOr<Partition> reordered = PartitionStraight(ordered);
  if (!reordered.ok()) return in_order;
  return in_order.ok() && in_order->bound_ns <= reordered->bound_ns ? in_order : reordered;
}

}  // namespace dpipe

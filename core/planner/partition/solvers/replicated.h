// Choosing layers and replicas of every stage together, for objectives that are a largest something
// over stages and links: what PipeDream's and SPP's partitions have in common.
//
//   A(s, m, j) = the least largest cost of stages 0 .. s-1 with layers [0, j) on the first m ranks
//   A(s+1, m+r, j) = min over i, r of max(A(s, m, i), link(m, i), stage(s, m, r, i, j))
//
// Stage s takes the ranks [m, m + r). O(S D R L^2) for R choices of r.
#ifndef DPIPE_CORE_PLANNER_PARTITION_SOLVERS_REPLICATED_H_
#define DPIPE_CORE_PLANNER_PARTITION_SOLVERS_REPLICATED_H_

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

// What every range of layers costs on a seat: made on first use, O(L^2) each. Seats that cost the
// same, as most of a cluster do, share one.
class SeatTables {
 public:
  explicit SeatTables(const PartitionProblem& problem) : problem_(problem) {}

  struct Table {
    std::vector<std::vector<Nanos>> compute, sync;  // [begin][end]
  };
  const Table& Of(const DeviceSeat& seat);
  // The replicas that stage s may have after `used` ranks: the problem's, or whatever a micro-batch
  // divides over and leaves a rank to each later stage; the last stage takes the rest.
  std::vector<int> Choices(int s, int used) const;
  // With Recompute::kAuto, times are those without and memory that with recomputation.
  DeviceSeat SeatAt(int first_rank, int replicas) const {
    return {first_rank, replicas, problem_.recompute == Recompute::kFull};
  }
  bool Fits(int s, const DeviceSeat& seat, LayerRange layers) const {
    return StageFits(problem_, s, seat, layers);
  }
  // Over the border between ranks m-1 and m: the whole micro-batch from the one rank to the other.
  Nanos BorderLink(int cut, int m) const {
    return problem_.costs->LinkNs(cut, {m - 1, 1, false}, {m, 1, false});
  }

 private:
  const PartitionProblem& problem_;
  Table Make(const DeviceSeat& seat) const;

  std::map<std::pair<int, int>, const Table*> tables_;        // by first rank and replicas
  std::map<int, std::vector<std::unique_ptr<Table>>> kinds_;  // those that differ, by replicas
};

struct ReplicatedCosts {
  // Of stage s with layers [i, j), which never falls when j grows.
  std::function<Nanos(const SeatTables::Table& table, const DeviceSeat& seat, int i, int j)> stage;
  std::function<Nanos(int cut, int m)> link;
};

struct ReplicatedSolution {
  Nanos largest = 0;
  std::vector<LayerRange> stages;  // none if nothing fits
  std::vector<int> replicas;
};

// `problem` is straight.
ReplicatedSolution SolveReplicated(const PartitionProblem& problem, SeatTables& tables,
                                   const ReplicatedCosts& costs);

// ResourceExhausted: the problem's own replicas as an example of what does not fit.
absl::Status WhyNothingFits(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_SOLVERS_REPLICATED_H_

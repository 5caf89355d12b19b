// Chooses layers and replicas of every stage together, for objectives that are a maximum over
// stages and links. Shared by the partitioners PipeDream and SPP.
//
//   A(s, m, j) = minimum largest cost of stages 0 .. s-1 with layers [0, j) on the first m ranks
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

// Tables of what every range of layers costs on a seat. Made on first use, O(L^2) each. Seats with
// equal costs, as most of a cluster has, share a table.
class SeatTables {
 public:
  explicit SeatTables(const PartitionProblem& problem) : problem_(problem) {}

  struct Table {
    std::vector<std::vector<Nanos>> compute, sync;  // [begin][end]
  };
  const Table& Of(const DeviceSeat& seat);
  // Returns the replicas that stage s may have after `used` ranks: the problem's, or every number
  // that a micro-batch divides over and that leaves a rank for each later stage. The last stage
  // takes the rest.
  std::vector<int> Choices(int s, int used) const;
  // With Recompute::kAuto, times are without recomputation and memory is with it if necessary.
  DeviceSeat SeatAt(int first_rank, int replicas) const {
    return {first_rank, replicas, problem_.recompute == Recompute::kFull};
  }
  bool Fits(int s, const DeviceSeat& seat, LayerRange layers) const {
    return StageFits(problem_, s, seat, layers);
  }
  // Returns the time over the border between ranks m-1 and m: the whole micro-batch goes from one
  // rank to the other.
  Nanos BorderLink(int cut, int m) const {
    return problem_.costs->LinkNs(cut, {m - 1, 1, false}, {m, 1, false});
  }

 private:
  const PartitionProblem& problem_;
  Table Make(const DeviceSeat& seat) const;

  std::map<std::pair<int, int>, const Table*> tables_;        // by first rank and replicas
  std::map<int, std::vector<std::unique_ptr<Table>>> kinds_;  // the different ones, by replicas
};

struct ReplicatedCosts {
  // Returns the cost of a stage with layers [i, j). Must not fall when j grows.
  std::function<Nanos(const SeatTables::Table& table, const DeviceSeat& seat, int i, int j)> stage;
  std::function<Nanos(int cut, int m)> link;
};

struct ReplicatedSolution {
  Nanos largest = 0;
  std::vector<LayerRange> stages;  // none if nothing fits
  std::vector<int> replicas;
};

// Returns the optimum. `problem` must be straight.
ReplicatedSolution SolveReplicated(const PartitionProblem& problem, SeatTables& tables,
                                   const ReplicatedCosts& costs);

// Returns ResourceExhausted, with the problem's own replicas as an example that does not fit.
absl::Status NothingFitsError(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_SOLVERS_REPLICATED_H_

#include "core/planner/partition/methods/spp.h"

#include <algorithm>

#include "core/base/status.h"
#include "core/planner/partition/solvers/replicated.h"

namespace dpipe {

Nanos SppCost(const PartitionProblem& problem, const std::vector<LayerRange>& stages,
              const std::vector<DeviceSeat>& seats) {
  const SeatTables tables(problem);
  const int count = problem.num_micro_batches;
  Nanos largest = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    largest = std::max(largest, count * problem.costs->ComputeNs(seats[s], stages[s]) +
                                    problem.costs->SyncNs({seats[s]}, stages[s]));
    if (s > 0) {
      largest = std::max(largest, count * tables.BorderLink(stages[s].begin, seats[s].first_rank));
    }
  }
  return largest;
}

absl::StatusOr<Partition> PartitionSpp(const PartitionProblem& problem) {
  DPIPE_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  DPIPE_RETURN_IF_ERROR(CheckStraight(problem, "spp"));
  SeatTables tables(problem);
  const int count = problem.num_micro_batches;
  ReplicatedCosts costs;
  costs.stage = [count](const SeatTables::Table& table, const DeviceSeat&, int i, int j) {
    return count * table.compute[i][j] + table.sync[i][j];
  };
  costs.link = [&](int cut, int m) { return count * tables.BorderLink(cut, m); };
  const ReplicatedSolution solution = SolveReplicated(problem, tables, costs);
  if (solution.stages.empty()) return NothingFitsError(problem);
  return FinishPartition(problem, solution.stages, solution.replicas);
}

}  // namespace dpipe

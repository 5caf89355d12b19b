#include "core/planner/partition/methods/pipedream.h"

#include <algorithm>

#include "core/base/status.h"
#include "core/planner/partition/solvers/replicated.h"

namespace dpipe {
namespace {

Nanos StageCost(Nanos compute, Nanos sync, int replicas) {
  return compute + (sync + replicas - 1) / replicas;
}

}  // namespace

Nanos PipeDreamCost(const PartitionProblem& problem, const std::vector<LayerRange>& stages,
                    const std::vector<DeviceSeat>& seats) {
  const SeatTables tables(problem);
  Nanos largest = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    largest = std::max(largest,
                       StageCost(problem.costs->ComputeNs(seats[s], stages[s]),
                                 problem.costs->SyncNs({seats[s]}, stages[s]), seats[s].replicas));
    if (s > 0) {
      largest = std::max(largest, tables.BorderLink(stages[s].begin, seats[s].first_rank));
    }
  }
  return largest;
}

absl::StatusOr<Partition> PartitionPipeDream(const PartitionProblem& problem) {
  DPIPE_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  DPIPE_RETURN_IF_ERROR(CheckStraight(problem, "pipedream"));
  SeatTables tables(problem);
  ReplicatedCosts costs;
  costs.stage = [](const SeatTables::Table& table, const DeviceSeat& seat, int i, int j) {
    return StageCost(table.compute[i][j], table.sync[i][j], seat.replicas);
  };
  costs.link = [&](int cut, int m) { return tables.BorderLink(cut, m); };
  const ReplicatedSolution solution = SolveReplicated(problem, tables, costs);
  if (solution.stages.empty()) return NothingFitsError(problem);
  return FinishPartition(problem, solution.stages, solution.replicas);
}

}  // namespace dpipe

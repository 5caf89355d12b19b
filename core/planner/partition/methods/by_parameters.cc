#include "core/planner/partition/methods/by_parameters.h"

#include "core/base/status.h"
#include "core/planner/partition/solvers/min_max.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionByParameters(const PartitionProblem& problem) {
  DPIPE_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  return FinishPartition(
      problem, MinimizeLargestStage(
                   problem.costs->num_layers(), problem.num_stages(),
                   [&](int, LayerRange layers) { return problem.costs->ParameterBytes(layers); }));
}

}  // namespace dpipe

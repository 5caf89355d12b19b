#include "core/planner/partition/methods/balanced.h"

#include "core/base/status.h"
#include "core/planner/partition/solvers/folded.h"
#include "core/planner/partition/solvers/refine.h"
#include "core/planner/partition/solvers/straight.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionBalanced(const PartitionProblem& problem) {
  DPIPE_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  if (IsStraight(problem)) return PartitionStraight(problem);
  return IsFolded(problem) ? PartitionFolded(problem) : PartitionByRefinement(problem);
}

}  // namespace dpipe

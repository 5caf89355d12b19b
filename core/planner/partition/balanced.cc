#include "core/planner/partition/balanced.h"

#include "core/base/status.h"
#include "core/planner/partition/refine.h"
#include "core/planner/partition/straight.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionBalanced(const PartitionProblem& problem) {
  DPIPE_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  return IsStraight(problem) ? PartitionStraight(problem) : PartitionByRefinement(problem);
}

}  // namespace dpipe

#include "core/planner/partition/balanced.h"

#include "core/base/status.h"
#include "core/planner/partition/folded.h"
#include "core/planner/partition/refine.h"
#include "core/planner/partition/straight.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionBalanced(const PartitionProblem& problem) {
  DPIPE_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  if (IsStraight(problem)) return PartitionStraight(problem);
  return IsFolded(problem) ? PartitionFolded(problem) : PartitionByRefinement(problem);
}

}  // namespace dpipe

#include "core/planner/partition/methods/none.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionNone(const PartitionProblem& problem) {
  DPIPE_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  if (problem.num_stages() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("partitioner 'none' makes 1 stage; requested ", problem.num_stages()));
  }
  return FinishPartition(problem, {{0, problem.costs->num_layers()}});
}

}  // namespace dpipe

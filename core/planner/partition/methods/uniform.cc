#include "core/planner/partition/methods/uniform.h"

#include <utility>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionUniform(const PartitionProblem& problem) {
  DPIPE_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  const int num_stages = problem.num_stages();
  const int each = problem.costs->num_layers() / num_stages;
  const int with_one_more = problem.costs->num_layers() % num_stages;
  std::vector<LayerRange> stages;
  for (int s = 0, begin = 0; s < num_stages; ++s) {
    const int end = begin + each + (s < with_one_more ? 1 : 0);
    stages.push_back({begin, end});
    begin = end;
  }
  return FinishPartition(problem, std::move(stages));
}

}  // namespace dpipe

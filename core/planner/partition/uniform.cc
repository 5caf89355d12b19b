#include "core/planner/partition/uniform.h"

#include <utility>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionUniform(const PartitionProblem& problem) {
  DPIPE_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  const int num_layers = problem.costs->num_layers();
  const int each = num_layers / problem.num_stages;
  const int with_one_more = num_layers % problem.num_stages;
  std::vector<LayerRange> stages;
  for (int s = 0, begin = 0; s < problem.num_stages; ++s) {
    const int end = begin + each + (s < with_one_more ? 1 : 0);
    stages.push_back({begin, end});
    begin = end;
  }
  DPIPE_RETURN_IF_ERROR(CheckMemory(problem, stages));
  return ScorePartition(problem, std::move(stages));
}

}  // namespace dpipe

#include "core/planner/partition/partition.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/check.h"

namespace dpipe {

absl::Status CheckPartitionProblem(const PartitionProblem& problem) {
  DPIPE_CHECK(problem.costs != nullptr);
  if (problem.num_stages < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a pipeline needs at least 1 stage; asked for ", problem.num_stages));
  }
  if (problem.num_stages > problem.costs->num_layers()) {
    return absl::InvalidArgumentError(absl::StrCat(problem.num_stages,
                                                   " stages cannot be cut from a backbone of ",
                                                   problem.costs->num_layers(), " layers"));
  }
  return absl::OkStatus();
}

Partition ScorePartition(const PartitionProblem& problem, std::vector<LayerRange> stages) {
  Partition partition;
  for (const LayerRange& layers : stages) {
    Nanos t = problem.costs->ComputeNs(layers);
    if (layers.begin > 0) t = std::max(t, problem.costs->LinkNs(layers.begin));
    partition.bottleneck_ns = std::max(partition.bottleneck_ns, t);
    const Nanos slack = problem.costs->BackwardNs({0, layers.begin});
    partition.exposed_sync_ns =
        std::max(partition.exposed_sync_ns, problem.costs->SyncNs(layers) - slack);
  }
  const int num_slots = problem.num_micro_batches + 2 * problem.num_stages - 2;
  partition.bound_ns = num_slots * partition.bottleneck_ns + partition.exposed_sync_ns;
  partition.stages = std::move(stages);
  return partition;
}

absl::Status CheckMemory(const PartitionProblem& problem, const std::vector<LayerRange>& stages) {
  if (problem.memory_limit_bytes == 0) return absl::OkStatus();
  for (int s = 0; s < static_cast<int>(stages.size()); ++s) {
    const int64_t need = problem.costs->MemoryBytes(s, stages[s]);
    if (need > problem.memory_limit_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "stage ", s, " (layers ", stages[s].ToString(), "): peak ", FormatBytes(need),
          " exceeds the device's limit of ", FormatBytes(problem.memory_limit_bytes)));
    }
  }
  return absl::OkStatus();
}

}  // namespace dpipe

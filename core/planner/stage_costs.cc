#include "core/planner/stage_costs.h"

#include <algorithm>

namespace dpipe {

ModelStageCosts::ModelStageCosts(const CostModel& cost, const PipelineShape& shape,
                                 const Schedule& schedule, int64_t frozen_bytes)
    : cost_(cost),
      shape_(shape),
      times_(cost.Times(cost.backbone(), shape.local_batch())),
      frozen_bytes_(frozen_bytes) {
  for (int s = 0; s < shape.num_stages; ++s) stashed_.push_back(schedule.PeakStashed(s));
  for (int g = 0; g < shape.num_groups(); ++g) {
    for (int i = 0; i < shape.replicas(); ++i) {
      replica_ranks_.push_back(g * shape.devices_per_pipeline + i);
    }
  }
  if (cost.cluster().memory_bytes_per_device() == 0) return;
  const int count = num_layers();
  workspace_.assign(count, std::vector<int64_t>(count + 1, 0));
  for (int i = 0; i < count; ++i) {
    for (int j = i + 1; j <= count; ++j) {
      workspace_[i][j] =
          std::max(workspace_[i][j - 1], cost.WorkspaceBytesPerSample(cost.backbone(), {j - 1, j}));
    }
  }
}

Nanos ModelStageCosts::LinkNs(int cut) const {
  const int last_rank = shape_.devices_per_pipeline - 1;
  if (last_rank == 0) return 0;
  const int64_t samples = shape_.local_batch();
  return cost_.Transfer(0, last_rank, samples * cost_.CutBytesPerSample(cost_.backbone(), cut)) +
         cost_.Transfer(0, last_rank,
                        samples * cost_.CutGradientBytesPerSample(cost_.backbone(), cut));
}

Nanos ModelStageCosts::SyncNs(LayerRange layers) const {
  if (replica_ranks_.size() == 1) return 0;
  return cost_.AllReduce(replica_ranks_, cost_.GradientBytes(layers));
}

int64_t ModelStageCosts::MemoryBytes(int stage, LayerRange layers) const {
  const int64_t workspace = workspace_.empty() ? 0 : workspace_[layers.begin][layers.end];
  return frozen_bytes_ + cost_.StateBytes(layers) +
         shape_.local_batch() *
             (stashed_[stage] * cost_.SavedBytesPerSample(cost_.backbone(), layers) + workspace);
}

}  // namespace dpipe

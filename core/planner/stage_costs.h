// The partitioner's costs of a model on a cluster, for one shape of pipeline.   [algorithms.md §2]
#ifndef DPIPE_CORE_PLANNER_STAGE_COSTS_H_
#define DPIPE_CORE_PLANNER_STAGE_COSTS_H_

#include <cstdint>
#include <vector>

#include "core/cost/cost_model.h"
#include "core/planner/partition/partition.h"
#include "core/planner/shape.h"
#include "core/schedule/schedule.h"

namespace dpipe {

class ModelStageCosts : public StageCosts {
 public:
  // `schedule` gives how many micro-batches each stage stashes. `frozen_bytes` is what a device
  // keeps besides its stage: the frozen components' weights. Both references must outlive this.
  ModelStageCosts(const CostModel& cost, const PipelineShape& shape, const Schedule& schedule,
                  int64_t frozen_bytes);

  int num_layers() const override { return cost_.num_layers(cost_.backbone()); }
  Nanos ComputeNs(LayerRange layers) const override { return times_.Total(layers); }
  Nanos ForwardNs(LayerRange layers) const { return times_.Forward(layers); }
  Nanos BackwardNs(LayerRange layers) const override { return times_.Backward(layers); }
  // Activations forward and gradients back, over the slowest link that the group may use.
  Nanos LinkNs(int cut) const override;
  // Over every replica of a stage, of all groups; where they lie is taken from stage 0.
  Nanos SyncNs(LayerRange layers) const override;
  int64_t MemoryBytes(int stage, LayerRange layers) const override;

 private:
  const CostModel& cost_;
  const PipelineShape shape_;
  const LayerTimes& times_;  // at the local batch
  int64_t frozen_bytes_ = 0;
  std::vector<int> stashed_;                     // micro-batches, by stage
  std::vector<int> replica_ranks_;               // of stage 0
  std::vector<std::vector<int64_t>> workspace_;  // [begin][end] bytes a sample; empty: no limit
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_STAGE_COSTS_H_

// What the stages of one cut pipeline cost on their seats under one order of the passes.
#ifndef DPIPE_CORE_PLANNER_COSTS_CUT_COSTS_H_
#define DPIPE_CORE_PLANNER_COSTS_CUT_COSTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/optional.h"
#include "core/base/range.h"
#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/planner/costs/stage_costs.h"
#include "core/planner/pipeline/pipeline_cut.h"
#include "core/planner/pipeline/shape.h"
#include "core/schedule/schedule.h"

namespace dpipe {

class CutCosts {
 public:
  using Stages = std::vector<std::vector<LayerRange>>;  // by backbone, as PipelineCut's

  // `tables` and `options` by backbone. All but the two outlive this.
  CutCosts(const CostModel& cost, const std::vector<std::shared_ptr<const BackboneTables>>& tables,
           const std::vector<StageCostsOptions>& options, const PipelineShape& shape,
           const PipelineCut& cut, const Schedule& schedule);

  // Of such a stage on a device; with self-conditioning, forward passes as an average step has
  // them.
  PassCosts Passes(int backbone, LayerRange layers, int device) const;
  // Bytes that are free on the device with these stages; less than 0: that lack. None where there
  // is no limit.
  absl::optional<int64_t> FreeBytes(int device, const Stages& stages) const;
  // What the largest stage on the device keeps of a micro-batch.
  int64_t LargestPairBytes(int device, const Stages& stages) const;

  // Of the cut itself, by stage of the schedule: how long what a stage hands on takes to the next
  // stage, and its gradient to the one before.
  std::vector<Nanos> ForwardDelays() const { return Delays(/*gradients=*/false); }
  std::vector<Nanos> GradientDelays() const { return Delays(/*gradients=*/true); }
  // By schedule device: the optimizer step.
  std::vector<Nanos> OptimizerTimes() const;
  // By stage of the schedule: how many micro-batches it may keep so that all stages of a device
  // together, at their most, fit in its memory but for `spare`, a part of it; at least one each.
  // Stages get room in proportion to how long a micro-batch stays there if nothing waits.
  std::vector<int> StageLimits(double spare) const;

 private:
  std::vector<HeldStage> Held(size_t backbone, int device, const Stages& stages) const;
  int64_t PairBytes(int stage) const;
  LayerRange LayersOf(int stage) const;
  int BackboneOf(int stage) const;
  std::vector<Nanos> Delays(bool gradients) const;
  std::vector<Nanos> Stays() const;
  int64_t PeakPairBytes(int device) const;
  void ShareRoom(int device, int64_t bytes, const std::vector<Nanos>& stays,
                 std::vector<int>* limits) const;

  const CostModel& cost_;
  const PipelineShape& shape_;
  const PipelineCut& cut_;
  const Schedule& schedule_;
  const std::vector<DeviceSeat> seats_;
  std::vector<std::unique_ptr<ModelStageCosts>> costs_;  // by backbone
  std::vector<PartitionProblem> problems_;               // likewise
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_COSTS_CUT_COSTS_H_

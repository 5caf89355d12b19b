// The costs of a pipeline's stages on their seats, for one cut and one order of the passes.
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
  using Stages = std::vector<std::vector<LayerRange>>;  // by backbone, as in PipelineCut

  // `tables` and `options` are by backbone. All other arguments must outlive this.
  CutCosts(const CostModel& cost, const std::vector<std::shared_ptr<const BackboneTables>>& tables,
           const std::vector<StageCostsOptions>& options, const PipelineShape& shape,
           const PipelineCut& cut, const Schedule& schedule);

  // Returns the pass times of a stage of `layers` on a device. With self-conditioning, the forward
  // time is that of an average step.
  PassCosts Passes(int backbone, LayerRange layers, int device) const;
  // Returns the free bytes on the device with these stages, negative if memory is lacking. Returns
  // nullopt if there is no limit.
  absl::optional<int64_t> FreeBytes(int device, const Stages& stages) const;
  // Returns the bytes that the largest stage on the device keeps per micro-batch; at least 1.
  int64_t LargestPairBytes(int device, const Stages& stages) const;

  // Return, by stage of the schedule of the cut itself, the time to send its output to the next
  // stage, and its gradient to the previous one.
  std::vector<Nanos> ForwardDelays() const { return Delays(/*gradients=*/false); }
  std::vector<Nanos> GradientDelays() const { return Delays(/*gradients=*/true); }
  // Returns the time of the optimizer step, by schedule device.
  std::vector<Nanos> OptimizerTimes() const;
  // Returns, by stage of the schedule, how many micro-batches it may keep so that the peaks of all
  // stages of a device fit in its memory together, less the fraction `spare` of it; at least 1
  // each. Stages share the room in proportion to how long a micro-batch stays there if nothing
  // waits.
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
  std::vector<PartitionProblem> problems_;               // by backbone
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_COSTS_CUT_COSTS_H_

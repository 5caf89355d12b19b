// One shape and one partition, made into a plan and simulated.                 [algorithms.md §2,
// §4]
#ifndef DPIPE_CORE_PLANNER_BUILD_PLAN_H_
#define DPIPE_CORE_PLANNER_BUILD_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/range.h"
#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/planner/partition/partition.h"
#include "core/planner/shape.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/lower.h"

namespace dpipe {

struct BuiltPlan {
  Plan plan;  // not verified
  Nanos step_ns = 0;
  double bubble_ratio = 0;
  double unfilled_bubble_ratio = 0;  // 0 where nothing is filled
};

// Turns shapes and partitions of one model and cluster into plans, as one strategy says.
class PlanBuilder {
 public:
  // `strategy` passes CheckStrategy; `cost` must outlive this.
  PlanBuilder(const Strategy& strategy, bool global_norm, const CostModel& cost);

  // Whether this strategy's plans have frozen work in their bubbles. Without cross-iteration
  // nothing can be: this step's frozen work is needed by the pipeline's first forward pass, which
  // no bubble of its step precedes, so such a plan runs it first.
  bool fills() const { return fills_; }
  bool cached() const { return strategy_.frozen() == "cached"; }

  absl::StatusOr<Partition> MakePartition(const PipelineShape& shape) const;
  absl::StatusOr<BuiltPlan> Build(const PipelineShape& shape,
                                  const std::vector<LayerRange>& stages) const;
  // The same with the frozen work before the pipeline.
  absl::StatusOr<BuiltPlan> BuildFrozenFirst(const PipelineShape& shape,
                                             const std::vector<LayerRange>& stages) const;

  // What the step will take, roughly: orders the search.
  Nanos Estimate(const PipelineShape& shape, const Partition& partition) const;
  // What it cannot be shorter than (sim/lower_bound.h, the path bound without links).
  Nanos LowerBound(const PipelineShape& shape, const Partition& partition) const;

 private:
  absl::StatusOr<BuiltPlan> Lower(const PipelineShape& shape, const std::vector<LayerRange>& stages,
                                  LowerOptions options) const;
  absl::StatusOr<BuiltPlan> BuildFilled(const PipelineShape& shape,
                                        const std::vector<LayerRange>& stages) const;
  LowerOptions Options(FrozenPolicy frozen) const;
  Nanos FrozenTime(int samples) const;

  const Strategy strategy_;
  const bool global_norm_;
  const CostModel& cost_;
  const bool fills_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_BUILD_PLAN_H_

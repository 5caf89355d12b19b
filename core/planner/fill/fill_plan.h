// A pipeline's plan with the next step's frozen work in its bubbles.             [algorithms.md §4]
//
// Lowers the pipeline without frozen work, simulates it, places the work in its gaps (fill.h) and
// lowers again. Then no pass of the backbone starts later than without filling, counted from the
// moment at which the optimizer steps begin: computing fits in the gaps as simulated, and where
// sending outputs while gradients or activations are on their way would hold up a pass, the
// messages go between two FLUSHes after everything else, where the optimizer step waits for them.
#ifndef DPIPE_CORE_PLANNER_FILL_FILL_PLAN_H_
#define DPIPE_CORE_PLANNER_FILL_FILL_PLAN_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/planner/fill/fill.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/lowering/lower.h"
#include "core/schedule/placement/layout.h"
#include "core/schedule/schedule.h"

namespace dpipe {

struct FilledPlan {
  Plan plan;  // not verified
  Nanos step_ns = 0;
  double bubble_ratio = 0;
  // By rank: when its last pass or frozen work ends, counted from the last start of an optimizer
  // step before it; the last of them set the step.
  std::vector<Nanos> finish_ns;
  Nanos unfilled_step_ns = 0;  // of the same pipeline with no frozen work at all
  double unfilled_bubble_ratio = 0;
};

// `options.frozen`, `fill` and `flush_exchange` are set here. Where even the unfilled step is
// longer than `give_up_ns` (0: no limit) nothing is filled: the plan is empty and its step the
// unfilled one. Errors as LowerPlan's and PlaceFrozenWork's.
absl::StatusOr<FilledPlan> FillPlan(const PipelineLayout& layout, const Schedule& schedule,
                                    LowerOptions options, const FillOptions& fill,
                                    const CostModel& cost, Nanos give_up_ns = 0);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_FILL_PLAN_H_

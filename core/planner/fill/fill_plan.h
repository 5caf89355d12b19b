// Builds a pipeline's plan with the next step's frozen work in its bubbles.      [algorithms.md §4]
//
//   1. Lowers the pipeline without frozen work and simulates it.
//   2. Places the frozen work in the gaps (fill.h) and lowers again.
//   3. If a pass of the backbone then starts later than in step 1, lowers once more, with the
//      messages of frozen outputs between two FLUSHes after everything else. The optimizer step
//      waits for them.
//
// With FillOptions.published, step 2 is published/published_fill.h and lowering is weave.h. Passes
// may then start later.
//
// Pass starts are compared relative to the last start of an optimizer step in the previous step.
// The work itself fits in the gaps as simulated; only its messages can delay a pass, if they share
// links with gradients or activations in flight.
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
  // By rank: end of its last pass or frozen work, relative to the last start of an optimizer step
  // in the previous step. The latest of them determine the step's time.
  std::vector<Nanos> finish_ns;
  Nanos unfilled_step_ns = 0;  // of the same pipeline without frozen work
  double unfilled_bubble_ratio = 0;
};

// Builds and simulates the filled plan. Overwrites `frozen`, `fill` and `flush_exchange` of
// `options`. If even the unfilled step is longer than `step_limit_ns` (0: no limit), returns an
// empty plan with the time and bubble ratio of the unfilled step. Returns the errors of LowerPlan,
// of the simulation and of PlaceFrozenWork.
absl::StatusOr<FilledPlan> FillPlan(const PipelineLayout& layout, const Schedule& schedule,
                                    LowerOptions options, const FillOptions& fill,
                                    const CostModel& cost, Nanos step_limit_ns = 0);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_FILL_PLAN_H_

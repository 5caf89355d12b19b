// Writes the simulator's predictions into a plan.
#ifndef DPIPE_CORE_SIM_ANNOTATE_H_
#define DPIPE_CORE_SIM_ANNOTATE_H_

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// Sets predicted_start_ns and predicted_duration_ns of every instruction, and plan->prediction. The
// times are those of a steady-state step and count from its first event. `unfilled_bubble_ratio` is
// that of the same schedule without fill work; 0 if nothing is filled. Returns the errors of
// Simulate.
absl::Status AnnotatePrediction(Plan* plan, const CostModel& cost,
                                double unfilled_bubble_ratio = 0);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_ANNOTATE_H_

// Writes what the simulator expects into a plan.
#ifndef DPIPE_CORE_SIM_ANNOTATE_H_
#define DPIPE_CORE_SIM_ANNOTATE_H_

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// Sets predicted_start_ns and predicted_duration_ns of every instruction (of a steady-state step,
// whose start is time 0) and plan->prediction; `unfilled_bubble_ratio` is that of the same schedule
// with no fill work, 0 where nothing is filled. Errors as Simulate's.
absl::Status AnnotatePrediction(Plan* plan, const CostModel& cost,
                                double unfilled_bubble_ratio = 0);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_ANNOTATE_H_

// Makes the schedule of a pipeline of a given shape, for models of one or several backbones.
#ifndef DPIPE_CORE_PLANNER_PIPELINE_PIPELINE_SCHEDULE_H_
#define DPIPE_CORE_PLANNER_PIPELINE_PIPELINE_SCHEDULE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/planner/pipeline/shape.h"
#include "core/schedule/schedule.h"

namespace dpipe {

struct PipelineScheduleOptions {
  int num_backbones = 1;
  std::vector<PassCosts> costs;    // by stage of the result; empty: unit costs
  bool self_conditioning = false;  // each micro-batch first runs a pass without gradient
};

// Makes the schedule of the shape's pipeline. A schedule for one backbone trains several backbones
// one after the other (concatenate_schedules.h). Returns InvalidArgument if a schedule for several
// backbones does not match their number, or if its generator refuses.
absl::StatusOr<Schedule> MakePipelineSchedule(const PipelineShape& shape,
                                              const PipelineScheduleOptions& options);

// Returns the maximum number of micro-batches in flight on a stage with gradients; 0 if the
// schedule splits backward passes. Recomputing in blocks gains nothing there, because everything
// that has been restored is kept until the weight gradients.
int BlocksInFlight(const Schedule& schedule);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PIPELINE_PIPELINE_SCHEDULE_H_

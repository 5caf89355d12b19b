// Simulates a schedule without a model: stages of one layer each, with given times.
#ifndef DPIPE_TOOLS_PLANNING_TIMED_SCHEDULE_H_
#define DPIPE_TOOLS_PLANNING_TIMED_SCHEDULE_H_

#include <string>

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/trace.pb.h"
#include "core/schedule/generators.h"

namespace dpipe::tools {

// Times of a stage's passes for one micro-batch, and of a message between two devices, in any unit.
// A joint backward pass takes input_grad + weight_grad.
struct PassTimes {
  double forward = 1, input_grad = 1, weight_grad = 1;
  double message = 0;
};

// Parses three or four numbers, "1,1,1" or "1,1.2,0.8,0.1". Returns InvalidArgument with the text
// unless they are at least 0, at most 1e6, and those of the passes sum to more than 0.
absl::StatusOr<PassTimes> ParsePassTimes(const std::string& text);

struct TimedSchedule {
  Schedule schedule;
  CostModel cost;
  Trace trace;      // a unit of time takes 1 ms
  double step = 0;  // in the given unit
  double bubble_ratio = 0;
};

// Makes the named schedule, plans a model with one layer per stage by it, and simulates the plan.
// Errors are those of MakeSchedule and MakePlan.
absl::StatusOr<TimedSchedule> SimulateSchedule(const std::string& name,
                                               const ScheduleRequest& request,
                                               const PassTimes& times);

// Returns the lines of ScheduleText, with these times and the simulated step, and idle time by
// device and reason.
absl::StatusOr<std::string> TimedScheduleText(const TimedSchedule& timed, const PassTimes& times);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_PLANNING_TIMED_SCHEDULE_H_

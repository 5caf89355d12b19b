// Schedules apart from any model: which one a plan follows, and what one is like.
#ifndef DPIPE_TOOLS_PLANNING_SCHEDULE_TEXT_H_
#define DPIPE_TOOLS_PLANNING_SCHEDULE_TEXT_H_

#include <string>

#include "core/base/status.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/schedule.h"

namespace dpipe::tools {

// The schedule of a plan's first pipeline group: its chains, and the order of passes on the first
// rank of every device. Passes in parts of a stage's layers count once, where they begin;
// recomputation is no pass of a schedule. InvalidArgument if what results is no valid schedule,
// which cannot be of a plan that VerifyPlan accepts.
absl::StatusOr<Schedule> ScheduleOfPlan(const Plan& plan);

// Devices, stages, chains, micro-batches and passes; makespan, bubble ratio and the most stashed
// micro-batches of a device where every forward, input-gradient and weight-gradient pass takes one
// unit of time and messages none; then the order itself, where it is not too long to read.
std::string ScheduleText(const Schedule& schedule);
// As above, with other lines for the makespan and the bubble ratio.
std::string ScheduleText(const Schedule& schedule, const std::string& costs);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_PLANNING_SCHEDULE_TEXT_H_

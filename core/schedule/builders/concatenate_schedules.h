// Trains several backbones without a common schedule: each device runs one after the other.
//
// This is what systems for a single backbone do with a cascaded model. The cool-down of one
// backbone overlaps the warm-up of the next one on devices that are free. [algorithms.md §3]
#ifndef DPIPE_CORE_SCHEDULE_BUILDERS_CONCATENATE_SCHEDULES_H_
#define DPIPE_CORE_SCHEDULE_BUILDERS_CONCATENATE_SCHEDULES_H_

#include <vector>

#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// Returns the concatenation of the schedules, under the name of the first. Element i is the
// schedule of backbone i. InvalidArgument if there are none, or (with both values) if their numbers
// of devices differ.
absl::StatusOr<Schedule> ConcatenateSchedules(const std::vector<Schedule>& backbones);

// Returns the schedule `times` in a row, of `times` as many micro-batches. Every device keeps as
// many micro-batches as in one. InvalidArgument if `times` is below 1.
absl::StatusOr<Schedule> Repeated(const Schedule& schedule, int times);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_BUILDERS_CONCATENATE_SCHEDULES_H_

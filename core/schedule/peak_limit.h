// The most that devices may keep for backward passes, in pairs of (stage, micro-batch).
#ifndef DPIPE_CORE_SCHEDULE_PEAK_LIMIT_H_
#define DPIPE_CORE_SCHEDULE_PEAK_LIMIT_H_

#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// The most pairs that any device keeps.
int PeakStashedOfAll(const Schedule& schedule);

// InvalidArgument, naming both, if a device keeps more pairs than `peak_limit`; 0 is no limit.
absl::Status CheckPeakLimit(const Schedule& schedule, int peak_limit);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_PEAK_LIMIT_H_

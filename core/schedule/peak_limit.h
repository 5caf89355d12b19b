// The peak memory of a schedule, in (stage, micro-batch) pairs kept for backward passes.
#ifndef DPIPE_CORE_SCHEDULE_PEAK_LIMIT_H_
#define DPIPE_CORE_SCHEDULE_PEAK_LIMIT_H_

#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// Returns the maximum over devices of the pairs that a device keeps.
int PeakStashedOfAll(const Schedule& schedule);

// InvalidArgument if a device keeps more than `peak_limit` pairs, naming the device and both
// numbers. 0 means no limit.
absl::Status CheckPeakLimit(const Schedule& schedule, int peak_limit);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_PEAK_LIMIT_H_

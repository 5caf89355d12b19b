// Several backbones without a common schedule: each device trains one after the other.
//
// What systems that know one backbone do with a cascaded model. The first backbone's cool-down and
// the second one's warm-up overlap where devices are free. [algorithms.md §3]
#ifndef DPIPE_CORE_SCHEDULE_BUILDERS_ONE_AFTER_ANOTHER_H_
#define DPIPE_CORE_SCHEDULE_BUILDERS_ONE_AFTER_ANOTHER_H_

#include <vector>

#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// Element i, a schedule of one backbone, is the i-th one's; the result has the first one's name.
// InvalidArgument, with both values, if their numbers of devices differ or there is none.
absl::StatusOr<Schedule> OneAfterAnother(const std::vector<Schedule>& backbones);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_BUILDERS_ONE_AFTER_ANOTHER_H_

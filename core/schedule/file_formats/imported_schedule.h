// A schedule from elsewhere, a file for example, under a name, so that a strategy can name it as it
// does a generator's.
#ifndef DPIPE_CORE_SCHEDULE_FILE_FORMATS_IMPORTED_SCHEDULE_H_
#define DPIPE_CORE_SCHEDULE_FILE_FORMATS_IMPORTED_SCHEDULE_H_

#include <string>

#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// From now on MakeSchedule gives this schedule for the name, for its own number of devices and of
// micro-batches and whatever the costs; TraitsOf knows it. InvalidArgument if it has several
// chains, or forward-only stages, or the name is taken. Not thread-safe: before anything is
// planned.
absl::Status ImportSchedule(const std::string& name, const Schedule& schedule);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_FILE_FORMATS_IMPORTED_SCHEDULE_H_

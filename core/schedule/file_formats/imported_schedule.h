// Registers a schedule from elsewhere, such as a file, under a name. Strategies can then refer to
// it like a generator.
#ifndef DPIPE_CORE_SCHEDULE_FILE_FORMATS_IMPORTED_SCHEDULE_H_
#define DPIPE_CORE_SCHEDULE_FILE_FORMATS_IMPORTED_SCHEDULE_H_

#include <string>

#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// Registers `schedule` as `name`. MakeSchedule then returns it for any costs, but only for its own
// numbers of devices and micro-batches. TraitsOf knows it too. InvalidArgument if it has several
// chains or forward-only stages, or if the name is taken. Not thread-safe: call it before anything
// is planned.
absl::Status ImportSchedule(const std::string& name, const Schedule& schedule);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_FILE_FORMATS_IMPORTED_SCHEDULE_H_

// Time in which this process runs.
#ifndef DPIPE_CORE_BASE_RUNNING_CLOCK_H_
#define DPIPE_CORE_BASE_RUNNING_CLOCK_H_

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "core/base/time.h"

namespace dpipe {

// For deadlines of others: a process that was stopped (Ctrl-Z, a debugger, a scheduler) must not
// take its own sleep for the silence of others. Setting the time of day changes nothing.
class RunningClock {
 public:
  // A process whose laps are no longer than `longest_lap` has run all the time; of a longer one
  // only that much counts.
  explicit RunningClock(absl::Duration longest_lap) : longest_lap_(longest_lap) {}

  // Since the last call.
  absl::Duration Lap() {
    const Nanos now = MonotonicNow();
    return std::min(absl::Nanoseconds(now - std::exchange(last_ns_, now)), longest_lap_);
  }

 private:
  const absl::Duration longest_lap_;
  Nanos last_ns_ = MonotonicNow();
};

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_RUNNING_CLOCK_H_

// A clock that measures time only while this process runs.
#ifndef DPIPE_CORE_BASE_RUNNING_CLOCK_H_
#define DPIPE_CORE_BASE_RUNNING_CLOCK_H_

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "core/base/time.h"

namespace dpipe {

// Use it for deadlines on other processes. A process that was stopped (Ctrl-Z, a debugger, a
// scheduler) must not mistake its own pause for their silence. Changes to the system time have no
// effect.
class RunningClock {
 public:
  // A lap longer than `max_lap` means that the process was stopped; it counts as `max_lap`.
  explicit RunningClock(absl::Duration max_lap) : max_lap_(max_lap) {}

  // Returns the time since the last call, at most `max_lap`.
  absl::Duration Lap() {
    const Nanos now = MonotonicNow();
    return std::min(absl::Nanoseconds(now - std::exchange(last_ns_, now)), max_lap_);
  }

 private:
  const absl::Duration max_lap_;
  Nanos last_ns_ = MonotonicNow();
};

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_RUNNING_CLOCK_H_

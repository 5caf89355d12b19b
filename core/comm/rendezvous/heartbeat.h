// How often the two ends of a connection look after each other.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_HEARTBEAT_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_HEARTBEAT_H_

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace dpipe {

// At least so often a thread looks at the time.
inline constexpr absl::Duration kHeartbeatTick = absl::Milliseconds(50);

// Ten chances to be heard before the silence is too long.
inline absl::Duration HeartbeatInterval(absl::Duration silence) {
  return std::min(silence / 10, absl::Seconds(1));
}

// Time in which this process runs: one that was stopped (Ctrl-Z, a debugger, a scheduler) must not
// take its own sleep for the silence of others.
class RunningClock {
 public:
  // Since the last call.
  absl::Duration Lap() {
    const absl::Time now = absl::Now();
    const absl::Duration lap = now - std::exchange(last_, now);
    return std::clamp(lap, absl::ZeroDuration(), 4 * kHeartbeatTick);
  }

 private:
  absl::Time last_ = absl::Now();
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_HEARTBEAT_H_

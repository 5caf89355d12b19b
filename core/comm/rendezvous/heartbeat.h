// How often the two ends of a connection look after each other.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_HEARTBEAT_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_HEARTBEAT_H_

#include <algorithm>

#include "absl/time/time.h"
#include "core/base/running_clock.h"

namespace dpipe {

// A thread looks at the time at least this often.
inline constexpr absl::Duration kHeartbeatTick = absl::Milliseconds(50);

// Ten chances to be heard before the silence is too long.
inline absl::Duration HeartbeatInterval(absl::Duration silence) {
  return std::min(silence / 10, absl::Seconds(1));
}

// As the two ends count time.
inline RunningClock HeartbeatClock() { return RunningClock(4 * kHeartbeatTick); }

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_HEARTBEAT_H_

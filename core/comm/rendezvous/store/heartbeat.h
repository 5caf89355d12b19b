// Timing of the heartbeats by which the two ends of a connection monitor each other.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_STORE_HEARTBEAT_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_STORE_HEARTBEAT_H_

#include <algorithm>

#include "absl/time/time.h"
#include "core/base/running_clock.h"

namespace dpipe {

// Maximum interval at which a thread checks the time.
inline constexpr absl::Duration kHeartbeatTick = absl::Milliseconds(50);

// Returns the interval: ten heartbeats fit into the permitted silence.
inline absl::Duration HeartbeatInterval(absl::Duration silence) {
  return std::min(silence / 10, absl::Seconds(1));
}

// Returns the clock by which both ends count time.
inline RunningClock HeartbeatClock() { return RunningClock(4 * kHeartbeatTick); }

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_STORE_HEARTBEAT_H_

// Observer of the ranks' waits, which shows how much of the time was communication overhead.
#ifndef DPIPE_CORE_COMM_WAIT_OBSERVER_H_
#define DPIPE_CORE_COMM_WAIT_OBSERVER_H_

#include "core/base/strong_id.h"
#include "core/base/time.h"

namespace dpipe {

class WaitObserver {
 public:
  virtual ~WaitObserver() = default;

  // Called when the rank's thread was blocked from `begin_ns` to `end_ns` (MonotonicNow()).
  // `ready_ns`, before or after both, is the earliest time at which it could have continued if
  // communication cost nothing except the collectives' own work:
  // - for a message, when Send was called;
  // - for a sum of doubles, when the last rank arrived;
  // - for a collective, when the last rank had started it, and in a second call when its work was
  //   done.
  //
  // The rest is the transport's overhead, wake-up time included. Called by the rank's thread.
  virtual void Waited(Rank rank, Nanos begin_ns, Nanos ready_ns, Nanos end_ns) = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_WAIT_OBSERVER_H_

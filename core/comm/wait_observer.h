// Whoever wants to know what ranks have waited for, and what they have waited in vain.
#ifndef DPIPE_CORE_COMM_WAIT_OBSERVER_H_
#define DPIPE_CORE_COMM_WAIT_OBSERVER_H_

#include "core/base/strong_id.h"
#include "core/base/time.h"

namespace dpipe {

class WaitObserver {
 public:
  virtual ~WaitObserver() = default;

  // The rank's thread was held up from `begin_ns` to `end_ns` (MonotonicNow()). `ready_ns`, before
  // or after both, is the earliest that it could have gone on, had communicating cost nothing but
  // the work that a collective is made of: a message's Send was called then; the last rank had come
  // to a sum; the last rank of a collective had started it and the longest of their shares of its
  // work would have been done. What comes after it is what the transport costs, being woken up
  // included. Called by the rank's thread.
  virtual void Waited(Rank rank, Nanos begin_ns, Nanos ready_ns, Nanos end_ns) = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_WAIT_OBSERVER_H_

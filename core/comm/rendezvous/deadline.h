// A time limit that is independent of the time of day.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_DEADLINE_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_DEADLINE_H_

#include "absl/time/time.h"
#include "core/base/time.h"

namespace dpipe {

class Deadline {
 public:
  // Starts now.
  explicit Deadline(absl::Duration limit) : limit_(limit) {}

  // Returns the time left; negative once the limit has passed.
  absl::Duration left() const { return limit_ - absl::Nanoseconds(MonotonicNow() - begin_ns_); }
  bool passed() const { return left() <= absl::ZeroDuration(); }

 private:
  absl::Duration limit_;
  Nanos begin_ns_ = MonotonicNow();
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_DEADLINE_H_

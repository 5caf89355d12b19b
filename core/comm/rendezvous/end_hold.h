// Work that is not to be cut off when the job fails: a checkpoint that is being written.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_END_HOLD_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_END_HOLD_H_

#include "absl/time/time.h"

namespace dpipe {

// A failed job waits at most this long for a hold to end: several times what tens of gigabytes
// take.
inline constexpr absl::Duration kLongestHold = absl::Minutes(10);

// While one exists, neither EndWithJob nor the launcher that has started this process ends it.
// Thread-safe; there may be several.
class EndHold {
 public:
  EndHold();
  ~EndHold();
  EndHold(const EndHold&) = delete;
  EndHold& operator=(const EndHold&) = delete;

  // Whether this process has one.
  static bool held();
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_END_HOLD_H_

// Protects work that must not be cut off when the job fails, such as writing a checkpoint.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_END_HOLD_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_END_HOLD_H_

#include "absl/time/time.h"

namespace dpipe {

// Maximum time that a failed job waits for a hold to end: several times what writing tens of
// gigabytes takes.
inline constexpr absl::Duration kMaxHold = absl::Minutes(10);

// While one exists, neither EndWithJob nor the launcher that started this process ends the process.
// Thread-safe; there may be several.
class EndHold {
 public:
  EndHold();
  ~EndHold();
  EndHold(const EndHold&) = delete;
  EndHold& operator=(const EndHold&) = delete;

  // True if this process has one.
  static bool held();
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_END_HOLD_H_

// Receives each rank's finished steps.
#ifndef DPIPE_CORE_RUNTIME_SESSION_STEP_SINK_H_
#define DPIPE_CORE_RUNTIME_SESSION_STEP_SINK_H_

#include <cstdint>
#include <vector>

#include "core/base/time.h"
#include "core/runtime/interpreter/rank_executor.h"

namespace dpipe {

// The peak memory of a rank's device, together with the devices that load for it.
struct RankPeak {
  Rank rank{0};
  int64_t peak_bytes = 0;  // in tensors at a time, since LocalSession::Run was called
};

// Thread-safe.
class StepSink {
 public:
  virtual ~StepSink() = default;
  // Reports a rank's finished step. `now_ns`, here and below, is on the session's clock.
  virtual void RankDone(int64_t step, const std::vector<StepLosses>& losses,
                        const StepOutcome& outcome, const RankPeak& memory, Nanos now_ns) = 0;
  // Restarts the time of the first step, which begins after the prologue.
  virtual void Restart(Nanos now_ns) = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_SESSION_STEP_SINK_H_

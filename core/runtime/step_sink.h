// Who is told when a rank has finished a step.
#ifndef DPIPE_CORE_RUNTIME_STEP_SINK_H_
#define DPIPE_CORE_RUNTIME_STEP_SINK_H_

#include <cstdint>
#include <vector>

#include "core/base/time.h"
#include "core/runtime/rank_executor.h"

namespace dpipe {

// Thread-safe.
class StepSink {
 public:
  virtual ~StepSink() = default;
  // `now_ns`: by the session's clock, here and below.
  virtual void RankDone(int64_t step, const std::vector<StepLosses>& losses,
                        const StepOutcome& outcome, Nanos now_ns) = 0;
  // The prologue belongs to no step: the first one starts after it.
  virtual void Restart(Nanos now_ns) = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_STEP_SINK_H_

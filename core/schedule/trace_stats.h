// What a trace says of a run: step times, busy time, bubble ratio; the same for simulated, emulated
// and executed traces.
//
// Busy: LOAD_BATCH, FORWARD, RECOMPUTE, BACKWARD, INPUT_GRAD, WEIGHT_GRAD, FROZEN_FORWARD and
// OPTIMIZER_STEP. Waiting, messages and collectives are not. A rank's step ends with its
// last OPTIMIZER_STEP. Steady-state steps are all but the first `warmup_steps` and, where the plan
// works across steps, the last, which has no next step to work for. [algorithms.md §1]
#ifndef DPIPE_CORE_SCHEDULE_TRACE_STATS_H_
#define DPIPE_CORE_SCHEDULE_TRACE_STATS_H_

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/proto/plan.pb.h"
#include "core/proto/trace.pb.h"

namespace dpipe {

// A TraceEvent without the weight of a message.
struct StreamEvent {
  int rank = 0;
  TraceEvent::Stream stream = TraceEvent::COMPUTE;
  int step = 0;  // -1: the prologue
  int instruction = 0;
  Nanos start_ns = 0;
  Nanos end_ns = 0;
};

struct TraceStats {
  // The slowest rank's, averaged over the steady steps (rounded down).
  Nanos step_ns = 0;
  std::vector<Nanos>
      step_times_ns;  // each steady step: the latest rank's end less that of the step before
  std::vector<Nanos> busy_ns;  // by rank, of one steady step on average
  double bubble_ratio = 0;     // 1 - sum of busy / (ranks x step)
  int num_steady_steps = 0;
};

// Whether any instruction works for the next step.
bool WorksAcrossSteps(const Plan& plan);

// InvalidArgument if the events leave no steady step or name a rank or instruction that the plan
// lacks. `skip_last`: the last step is not steady (WorksAcrossSteps, unless the run went on
// periodically).
absl::StatusOr<TraceStats> ComputeTraceStats(const Plan& plan,
                                             const std::vector<StreamEvent>& events,
                                             int warmup_steps, bool skip_last);
// The same for a Trace proto, which carries its plan.
absl::StatusOr<TraceStats> ComputeTraceStats(const Trace& trace, int warmup_steps = 1);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TRACE_STATS_H_

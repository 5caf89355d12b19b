// Statistics of a trace: step times, busy time and bubble ratio. They are the same for simulated,
// emulated and executed traces.
//
// Busy: LOAD_BATCH, FORWARD, RECOMPUTE, BACKWARD, INPUT_GRAD, WEIGHT_GRAD, FROZEN_FORWARD and
// OPTIMIZER_STEP. Not busy: waiting, messages and collectives. A rank's step ends with its last
// OPTIMIZER_STEP. Steady steps are all but the first `warmup_steps` and, if the plan works across
// steps, the last one, which has no next step to work for. [algorithms.md §1]
#ifndef DPIPE_CORE_SCHEDULE_TRACE_STATS_H_
#define DPIPE_CORE_SCHEDULE_TRACE_STATS_H_

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/proto/plan.pb.h"
#include "core/proto/trace.pb.h"

namespace dpipe {

// A TraceEvent without the overhead of a proto message.
struct StreamEvent {
  int rank = 0;
  TraceEvent::Stream stream = TraceEvent::COMPUTE;
  int step = 0;  // -1: the prologue
  int instruction = 0;
  Nanos start_ns = 0;
  Nanos end_ns = 0;
};

struct TraceStats {
  // The slowest rank's average time per steady step, rounded down.
  Nanos step_ns = 0;
  std::vector<Nanos>
      step_times_ns;  // each steady step: the latest rank's end minus that of the previous step
  std::vector<Nanos> busy_ns;  // by rank: the average per steady step
  double bubble_ratio = 0;     // 1 - sum of busy_ns / (ranks x step_ns)
  int num_steady_steps = 0;
};

// True if any instruction works for the next step.
bool WorksAcrossSteps(const Plan& plan);

// Computes the statistics. InvalidArgument if the events contain no steady step, or name a rank or
// instruction that is not in the plan. `skip_last`: the last step is not steady; pass
// WorksAcrossSteps(plan), or false if the run continued periodically.
absl::StatusOr<TraceStats> ComputeTraceStats(const Plan& plan,
                                             const std::vector<StreamEvent>& events,
                                             int warmup_steps, bool skip_last);
// The same for a Trace proto, which contains its plan.
absl::StatusOr<TraceStats> ComputeTraceStats(const Trace& trace, int warmup_steps = 1);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TRACE_STATS_H_

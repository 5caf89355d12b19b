// Runs a plan on an emulated cluster.
#ifndef DPIPE_CORE_EMULATION_EMULATE_H_
#define DPIPE_CORE_EMULATION_EMULATE_H_

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/emulation/virtual_clock.h"
#include "core/proto/plan.pb.h"
#include "core/proto/trace.pb.h"
#include "core/schedule/trace_stats.h"

namespace dpipe {

struct EmulateOptions {
  int num_steps = 4;  // the last prepares nothing for a next one
  VirtualClockOptions clock;
  uint64_t seed = 1;  // of inputs and parameters
};

// The losses of an exact plan differ from the reference's by rounding alone.
inline constexpr double kEmulatedLossTolerance = 1e-4;

struct Emulation {
  // In virtual time: the runtime's record of what ranks computed, the network's of what was sent.
  Trace trace;
  TraceStats stats;            // steady state, as Simulate's
  std::vector<double> losses;  // the emulated model's, by step
  // The largest relative difference between them and those of the same model trained without plan
  // or runtime (see ReferenceLosses): rounding, where every pass, message and sum was right.
  double loss_error = 0;
  Nanos virtual_ns = 0;         // from the first step's start to the last's end
  Nanos real_ns = 0;            // what the whole run took, prologue included
  Nanos worst_lateness_ns = 0;  // of a paced wait
};

// `plan` has passed VerifyPlan with `cost`; num_steps >= 2, and >= 3 for plans that work across
// steps. Ranks are threads of this process, as many as the plan has devices. InvalidArgument as
// MakeEmulatedModel's, EmulatedCluster's and LocalSession's; DeadlineExceeded,
// naming the waiting ranks, if the runtime cannot run the plan to its end.
absl::StatusOr<Emulation> Emulate(const Plan& plan, const CostModel& cost,
                                  const EmulateOptions& options = {});

}  // namespace dpipe

#endif  // DPIPE_CORE_EMULATION_EMULATE_H_

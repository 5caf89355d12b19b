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
  int num_steps = 4;  // the last step prepares nothing for a next one
  VirtualClockOptions clock;
  uint64_t seed = 1;  // for inputs and parameters
};

// Tolerance for the losses of an exact plan, which differ from the reference only by rounding.
inline constexpr double kEmulatedLossTolerance = 1e-4;

struct Emulation {
  // In virtual time: the runtime's record of computations, and the network's record of transfers.
  Trace trace;
  TraceStats stats;            // steady state, like those of Simulate
  std::vector<double> losses;  // the emulated model's, by step
  // The largest relative difference between `losses` and those of the same model trained without
  // plan or runtime (see ReferenceLosses). It is rounding if every pass, message and sum was right.
  double loss_error = 0;
  Nanos virtual_ns = 0;         // from the first step's start to the last step's end
  Nanos real_ns = 0;            // of the whole run, prologue included
  Nanos worst_lateness_ns = 0;  // of a paced wait
};

// Runs `plan`, which has passed VerifyPlan with `cost`. num_steps >= 2, and >= 3 for plans that
// work across steps. Ranks are threads of this process, as many as the plan has devices. Returns
// InvalidArgument like MakeEmulatedModel, EmulatedCluster and LocalSession, and DeadlineExceeded,
// naming the waiting ranks, if the runtime cannot complete the plan.
absl::StatusOr<Emulation> Emulate(const Plan& plan, const CostModel& cost,
                                  const EmulateOptions& options = {});

}  // namespace dpipe

#endif  // DPIPE_CORE_EMULATION_EMULATE_H_

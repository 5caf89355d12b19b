#include "core/sim/annotate.h"

#include <algorithm>

#include "core/schedule/trace_stats.h"
#include "core/sim/lower_bound.h"
#include "core/sim/simulator.h"

namespace dpipe {

absl::Status AnnotatePrediction(Plan* plan, const CostModel& cost, double unfilled_bubble_ratio) {
  SimulateOptions options;
  options.num_steps = 4;
  options.prologue_and_epilogue = false;
  options.critical_path = false;
  options.sort_events = false;
  DPIPE_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(*plan, cost, options));
  const int steady = options.num_steps - 1;
  // Under contention a run needs one more step to settle than the simulator's own statistics allow.
  DPIPE_ASSIGN_OR_RETURN(const TraceStats stats, ComputeTraceStats(*plan, simulation.events,
                                                                   /*warmup_steps=*/steady - 1,
                                                                   /*skip_last=*/false));
  // The step's first event: a rank may be ahead of those that set step_start_ns.
  Nanos origin = simulation.step_start_ns[steady];
  for (const StreamEvent& event : simulation.events) {
    if (event.step == steady) origin = std::min(origin, event.start_ns);
  }
  for (const StreamEvent& event : simulation.events) {
    if (event.step != steady) continue;
    Instruction* instruction =
        plan->mutable_devices(event.rank)->mutable_instructions(event.instruction);
    instruction->set_predicted_start_ns(event.start_ns - origin);
    instruction->set_predicted_duration_ns(event.end_ns - event.start_ns);
  }
  Prediction* prediction = plan->mutable_prediction();
  prediction->Clear();
  prediction->set_step_ns(stats.step_ns);
  prediction->set_lower_bound_ns(StepLowerBound(*plan, cost).bound_ns);
  prediction->set_bubble_ratio(stats.bubble_ratio);
  prediction->set_unfilled_bubble_ratio(unfilled_bubble_ratio);
  for (int64_t bytes : simulation.peak_memory_bytes) prediction->add_peak_memory_bytes(bytes);
  return absl::OkStatus();
}

}  // namespace dpipe

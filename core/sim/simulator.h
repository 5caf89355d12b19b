// Discrete-event simulation of a plan: integer nanoseconds, deterministic. [algorithms.md §6]
//
// Rules:
//
// - A rank's instructions other than messages run in list order on its compute stream, at the
//   rank's speed.
// - A SEND is issued and a RECV posted when the list reaches them. The transfer starts when both
//   have happened and its resources are free: the sender's send engine, the receiver's receive
//   engine and, between nodes, the network interfaces of both ranks. Each resource serves transfers
//   in order of readiness and is held for latency + bytes / bandwidth.
// - A compute instruction waits for received data and gathered parameters if it is the first to
//   need them. Between stages of one rank the order of the list suffices.
// - REDUCE_GRADS starts when all ranks that hold the layers have issued it, GATHER_PARAMS when all
//   ranks of its stage have. They run one at a time on their own stream or, if the cluster says so,
//   on the compute stream.
// - A collective between nodes also waits for its ranks' network interfaces and holds them, so that
//   the reductions of a node's stages share the interfaces.
// - REDUCE_GRADS of a sharded stage holds up its rank's list until earlier reductions have
//   finished, so that only one whole bucket is in memory at a time.
// - OPTIMIZER_STEP waits for its rank's reductions and, with a global norm, for every rank. FLUSH
//   waits for every rank and its messages.
// - While a device communicates, its computation is slower by the cluster's contention factor.
//
// Complexity: O(E log N) for E executed instructions on N ranks.
#ifndef DPIPE_CORE_SIM_SIMULATOR_H_
#define DPIPE_CORE_SIM_SIMULATOR_H_

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"
#include "core/proto/trace.pb.h"
#include "core/schedule/trace_stats.h"

namespace dpipe {

struct SimulateOptions {
  int num_steps = 4;
  // If set, simulates a training run: a prologue (step -1) does the first step's cross-step work,
  // and the last step does none. Otherwise the run is periodic: every step does all its work, and
  // the results of a step before the first are there at time 0. That is sufficient for a search.
  bool prologue_and_epilogue = true;
  bool critical_path = true;
  bool memory = true;
  bool sort_events = true;
};

struct MemoryPoint {
  Nanos time_ns = 0;
  int rank = 0;
  int64_t bytes = 0;  // from time_ns on
};

// One event of the critical path of a step, in time order. Consecutive events leave no gap apart
// from wait_ns.
struct CriticalEvent {
  StreamEvent event;
  // Time between the end of the previous event and the start of this one (latency of a barrier).
  Nanos wait_ns = 0;
  int index = 0;  // index in Simulation.events
};

struct Simulation {
  std::vector<StreamEvent> events;           // by start time, then rank, if sorted
  std::vector<Nanos> step_start_ns;          // num_steps + 1: see Trace.step_start_ns
  TraceStats stats;                          // steady state
  std::vector<MemoryPoint> memory;           // changes over the whole run, by time
  std::vector<int64_t> peak_memory_bytes;    // by rank
  std::vector<CriticalEvent> critical_path;  // of the last steady step
};

// Simulates a plan, which may lack its fill work. Returns InvalidArgument if the messages do not
// pair up, and DeadlineExceeded, naming the waiting ranks, if the plan cannot run to its end
// (VerifyPlan reports more). Requires num_steps >= 2, or >= 3 if prologue_and_epilogue is set and
// the plan works across steps.
absl::StatusOr<Simulation> Simulate(const Plan& plan, const CostModel& cost,
                                    const SimulateOptions& options = {});

// Simulates two periodic steps for a search, without memory or critical path and with events in no
// particular order. `stats` has the bubble ratio.
absl::StatusOr<Simulation> SimulateSteadyState(const Plan& plan, const CostModel& cost);

// Returns the steady state's step time: stats.step_ns of SimulateSteadyState.
absl::StatusOr<Nanos> SteadyStepTime(const Plan& plan, const CostModel& cost);

// Returns a trace, including memory over time and the critical path if the simulation has them.
// Events must be sorted.
Trace ToTrace(const Simulation& simulation, const Plan& plan);

// Writes the simulator's predictions into a plan.
//
// Sets predicted_start_ns and predicted_duration_ns of every instruction, and plan->prediction. The
// times are those of a steady-state step and count from its first event. `unfilled_bubble_ratio` is
// that of the same schedule without fill work; 0 if nothing is filled. Returns the errors of
// Simulate.
absl::Status AnnotatePrediction(Plan* plan, const CostModel& cost,
                                double unfilled_bubble_ratio = 0);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_SIMULATOR_H_

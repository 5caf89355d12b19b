// Discrete-event simulation of a plan: integer nanoseconds, deterministic. [algorithms.md §6]
//
// A rank's instructions that are not messages run in list order on its compute stream, at the
// rank's speed. A SEND is issued and a RECV posted when the list reaches them; the transfer starts
// when both have happened and the sender's send engine, the receiver's receive engine and, between
// nodes, the network interfaces that the two ranks are attached to are free, each serving in the
// order of readiness; it holds them for latency + bytes / bandwidth. A compute instruction waits
// for the received data and the gathered parameters that it is the first to need; between stages
// of one rank the order of the list suffices. REDUCE_GRADS starts when all ranks that hold the
// layers have issued it and GATHER_PARAMS when all of its stage have, one at a time on a stream of
// their own or, if the cluster says so, on the compute stream; one between nodes also waits for its
// ranks' network interfaces and holds them, so that the reductions of a node's stages share what
// they go through. A sharded stage's REDUCE_GRADS holds up its rank's list until the reductions
// before it are over, so that one whole bucket is in memory at a time. OPTIMIZER_STEP waits for its
// rank's reductions and, with a global norm, for every rank; FLUSH for every rank and its messages.
// While a device communicates, its computing is slower by the cluster's contention factor.
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
  // As training runs: a prologue (step -1) does the first step's cross-step work, and the last step
  // does none. Otherwise the run is periodic: every step does all its work, and what the step
  // before the first would have made is there at time 0, which is all that a search needs to know.
  bool prologue_and_epilogue = true;
  bool critical_path = true;
  bool memory = true;
  bool sort_events = true;
};

struct MemoryPoint {
  Nanos time_ns = 0;
  int rank = 0;
  int64_t bytes = 0;  // from this time on
};

// One link of the chain that sets the step time, in time order; gaps do not occur.
struct CriticalEvent {
  StreamEvent event;
  // Between the end of the event before and this one's start (latency of a barrier).
  Nanos wait_ns = 0;
  int index = 0;  // of the event in Simulation.events
};

struct Simulation {
  std::vector<StreamEvent> events;           // by start time, then rank, if sorted
  std::vector<Nanos> step_start_ns;          // num_steps + 1: see Trace.step_start_ns
  TraceStats stats;                          // steady state
  std::vector<MemoryPoint> memory;           // where it changes, by time, of the whole run
  std::vector<int64_t> peak_memory_bytes;    // by rank
  std::vector<CriticalEvent> critical_path;  // of the last steady step
};

// InvalidArgument if the messages do not pair up, DeadlineExceeded naming the waiting ranks if the
// plan cannot run to its end (VerifyPlan says more). Plans lowered without their fill work are
// fine. num_steps >= 2, and >= 3 with an epilogue that differs.
absl::StatusOr<Simulation> Simulate(const Plan& plan, const CostModel& cost,
                                    const SimulateOptions& options = {});

// Two periodic steps without memory or critical path, events in no particular order: what a search
// calls. Bubble ratio in `stats`.
absl::StatusOr<Simulation> SimulateSteadyState(const Plan& plan, const CostModel& cost);

// The step time of the steady state: stats.step_ns of SimulateSteadyState.
absl::StatusOr<Nanos> SteadyStepTime(const Plan& plan, const CostModel& cost);

// With memory over time and the critical path, where the simulation has them. Events must be
// sorted.
Trace ToTrace(const Simulation& simulation, const Plan& plan);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_SIMULATOR_H_

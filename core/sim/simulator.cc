#include "core/sim/simulator.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/cost/step_bound.h"
#include "core/schedule/memory/memory.h"
#include "core/schedule/trace_stats.h"
#include "core/sim/event_engine.h"
#include "core/sim/lower_bound.h"
#include "core/sim/plan_graph.h"

namespace dpipe {

namespace {

// Returns the indices of the engine's events, sorted by start, rank, end, step and instruction.
std::vector<int> SortedOrder(const std::vector<CausedEvent>& events) {
  std::vector<int> order(events.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&events](int i) {
    const StreamEvent& e = events[i].event;
    return std::tie(e.start_ns, e.rank, e.end_ns, e.step, e.instruction);
  };
  std::sort(order.begin(), order.end(), [&key](int a, int b) { return key(a) < key(b); });
  return order;
}

// Traces back from the end of the last optimizer step of `step` to that of the previous step.
// `position` maps the engine's events to the simulation's.
std::vector<CriticalEvent> CriticalPath(const PlanGraph& graph,
                                        const std::vector<CausedEvent>& events,
                                        const std::vector<int>& position, int step) {
  const auto is_step_end = [&graph](const StreamEvent& event) {
    return graph.node(event.rank, event.instruction).kind == NodeKind::kOptimizer;
  };
  int at = -1;
  for (int i = 0; i < static_cast<int>(events.size()); ++i) {
    const StreamEvent& event = events[i].event;
    if (event.step != step || !is_step_end(event)) continue;
    if (at < 0 || event.end_ns > events[at].event.end_ns) at = i;
  }
  std::vector<CriticalEvent> path;
  for (; at >= 0; at = events[at].cause) {
    if (events[at].event.step < step && is_step_end(events[at].event)) break;
    const int cause = events[at].cause;
    const Nanos before = cause >= 0 ? events[cause].event.end_ns : 0;
    path.push_back({events[at].event, events[at].event.start_ns - before, position[at]});
  }
  std::reverse(path.begin(), path.end());
  return path;
}

// Records each rank's memory from the start of each compute instruction.
void AddMemory(const Plan& plan, const CostModel& cost, const std::vector<int>& order,
               const std::vector<CausedEvent>& events, Simulation* simulation) {
  std::vector<RankMemory> memory;
  for (int r = 0; r < plan.devices_size(); ++r) {
    memory.push_back(MemoryOfRank(plan, r, cost));
    simulation->peak_memory_bytes.push_back(memory.back().peak_bytes);
  }
  std::vector<int64_t> held(plan.devices_size(), -1);
  for (int i : order) {
    const StreamEvent& event = events[i].event;
    if (event.stream != TraceEvent::COMPUTE) continue;
    const int64_t bytes = memory[event.rank].instruction_bytes[event.instruction];
    if (std::exchange(held[event.rank], bytes) == bytes) continue;
    simulation->memory.push_back({event.start_ns, event.rank, bytes});
  }
}

}  // namespace

absl::StatusOr<Simulation> Simulate(const Plan& plan, const CostModel& cost,
                                    const SimulateOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const PlanGraph graph, MakePlanGraph(plan, cost));
  const bool periodic = !options.prologue_and_epilogue;
  const bool skip_last = graph.works_across_steps && !periodic;
  const int min_steps = skip_last ? 3 : 2;
  if (options.num_steps < min_steps) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_steps is ", options.num_steps,
                     ", which leaves no steady step to measure; it must be at least ", min_steps));
  }
  // One more, for the prologue.
  DPIPE_RETURN_IF_ERROR(CheckStepTimes(cost, plan.global_batch(), options.num_steps + 1));
  EventEngine engine(graph, cost.cluster(), cost.GlobalNorm(), options.num_steps, periodic);
  DPIPE_RETURN_IF_ERROR(engine.Run());
  const std::vector<CausedEvent>& events = engine.events();
  Simulation simulation;
  simulation.step_start_ns = engine.step_start_ns();
  std::vector<int> order;  // indices of the engine's events; empty: in their order
  if (options.sort_events || options.memory) order = SortedOrder(events);
  simulation.events.reserve(events.size());
  std::vector<int> position(options.critical_path ? events.size() : 0);
  for (size_t i = 0; i < events.size(); ++i) {
    const size_t of = options.sort_events ? order[i] : i;
    if (options.critical_path) position[of] = static_cast<int>(i);
    simulation.events.push_back(events[of].event);
  }
  DPIPE_ASSIGN_OR_RETURN(simulation.stats,
                         ComputeTraceStats(plan, simulation.events, /*warmup_steps=*/1, skip_last));
  if (options.critical_path) {
    const int last_steady = options.num_steps - (skip_last ? 2 : 1);
    simulation.critical_path = CriticalPath(graph, events, position, last_steady);
  }
  if (options.memory) AddMemory(plan, cost, order, events, &simulation);
  return simulation;
}

absl::StatusOr<Simulation> SimulateSteadyState(const Plan& plan, const CostModel& cost) {
  SimulateOptions options;
  options.num_steps = 2;
  options.prologue_and_epilogue = false;
  options.critical_path = false;
  options.memory = false;
  options.sort_events = false;
  return Simulate(plan, cost, options);
}

absl::StatusOr<Nanos> SteadyStepTime(const Plan& plan, const CostModel& cost) {
  DPIPE_ASSIGN_OR_RETURN(const Simulation simulation, SimulateSteadyState(plan, cost));
  return simulation.stats.step_ns;
}

Trace ToTrace(const Simulation& simulation, const Plan& plan) {
  Trace trace;
  trace.set_source(Trace::SIMULATED);
  *trace.mutable_plan() = plan;
  for (const StreamEvent& event : simulation.events) {
    TraceEvent* added = trace.add_events();
    added->set_rank(event.rank);
    added->set_stream(event.stream);
    added->set_step(event.step);
    added->set_instruction(event.instruction);
    added->set_start_ns(event.start_ns);
    added->set_end_ns(event.end_ns);
  }
  for (Nanos start : simulation.step_start_ns) trace.add_step_start_ns(start);
  for (int64_t bytes : simulation.peak_memory_bytes) trace.add_peak_memory_bytes(bytes);
  for (const MemoryPoint& point : simulation.memory) {
    MemorySample* sample = trace.add_memory();
    sample->set_rank(point.rank);
    sample->set_time_ns(point.time_ns);
    sample->set_bytes(point.bytes);
  }
  for (const CriticalEvent& event : simulation.critical_path) {
    CriticalLink* link = trace.add_critical_path();
    link->set_event(event.index);
    link->set_wait_ns(event.wait_ns);
  }
  return trace;
}

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

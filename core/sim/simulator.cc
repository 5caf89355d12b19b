#include "core/sim/simulator.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "core/schedule/memory.h"
#include "core/sim/event_engine.h"
#include "core/sim/plan_graph.h"

namespace dpipe {
namespace {

// Back from the end of the last optimizer step of `step` to that of the step before.
std::vector<CriticalEvent> CriticalPath(const Plan& plan, const std::vector<CausedEvent>& events,
                                        int step) {
  const auto is_step_end = [&plan](const StreamEvent& event) {
    return plan.devices(event.rank).instructions(event.instruction).kind() ==
           Instruction::OPTIMIZER_STEP;
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
    path.push_back({events[at].event, events[at].event.start_ns - before});
  }
  std::reverse(path.begin(), path.end());
  return path;
}

// What each rank holds, from each compute instruction's start on.
void AddMemory(const Plan& plan, const CostModel& cost, Simulation* simulation) {
  std::vector<RankMemory> memory;
  for (int r = 0; r < plan.devices_size(); ++r) {
    memory.push_back(MemoryOfRank(plan, r, cost));
    simulation->peak_memory_bytes.push_back(memory.back().peak_bytes);
  }
  for (const StreamEvent& event : simulation->events) {
    if (event.stream != TraceEvent::COMPUTE) continue;
    simulation->memory.push_back(
        {event.start_ns, event.rank, memory[event.rank].instruction_bytes[event.instruction]});
  }
}

}  // namespace

absl::StatusOr<Simulation> Simulate(const Plan& plan, const CostModel& cost,
                                    const SimulateOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const PlanGraph graph, MakePlanGraph(plan, cost));
  const bool periodic = !options.prologue_and_epilogue;
  const bool skip_last = graph.works_across_steps && !periodic;
  const int fewest = skip_last ? 3 : 2;
  if (options.num_steps < fewest) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_steps ", options.num_steps, " leaves no steady step; it takes ", fewest));
  }
  EventEngine engine(graph, cost.cluster(), plan.global_norm() ? cost.GlobalNorm() : 0,
                     options.num_steps, periodic);
  DPIPE_RETURN_IF_ERROR(engine.Run());
  Simulation simulation;
  simulation.step_start_ns = engine.step_start_ns();
  simulation.events.reserve(engine.events().size());
  for (const CausedEvent& caused : engine.events()) simulation.events.push_back(caused.event);
  std::sort(simulation.events.begin(), simulation.events.end(),
            [](const StreamEvent& a, const StreamEvent& b) {
              return std::tie(a.start_ns, a.rank, a.end_ns, a.step, a.instruction) <
                     std::tie(b.start_ns, b.rank, b.end_ns, b.step, b.instruction);
            });
  DPIPE_ASSIGN_OR_RETURN(simulation.stats,
                         ComputeTraceStats(plan, simulation.events, /*warmup_steps=*/1, skip_last));
  if (options.critical_path) {
    const int last_steady = options.num_steps - (skip_last ? 2 : 1);
    simulation.critical_path = CriticalPath(plan, engine.events(), last_steady);
  }
  if (options.memory) AddMemory(plan, cost, &simulation);
  return simulation;
}

absl::StatusOr<Simulation> SimulateSteadyState(const Plan& plan, const CostModel& cost) {
  SimulateOptions options;
  options.num_steps = 2;
  options.prologue_and_epilogue = false;
  options.critical_path = false;
  options.memory = false;
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
  return trace;
}

}  // namespace dpipe

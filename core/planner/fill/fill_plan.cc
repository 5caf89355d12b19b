#include "core/planner/fill/fill_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/planner/fill/published/published_fill.h"
#include "core/proto/instruction_parts.h"
#include "core/schedule/lowering/weave.h"
#include "core/schedule/memory/memory.h"
#include "core/sim/simulator.h"

namespace dpipe {
namespace {

bool IsPass(Instruction::Kind kind) {
  return kind == Instruction::FORWARD || IsBackward(kind) || kind == Instruction::RECOMPUTE;
}

const Instruction& InstructionOf(const Plan& plan, const StreamEvent& event) {
  return plan.devices(event.rank).instructions(event.instruction);
}

// Returns the last start of an optimizer step in step 0, the one before the steady step.
Nanos OriginOf(const Plan& plan, const std::vector<StreamEvent>& events) {
  Nanos origin = 0;
  for (const StreamEvent& event : events) {
    if (event.stream != TraceEvent::COMPUTE || event.step != 0) continue;
    if (InstructionOf(plan, event).kind() != Instruction::OPTIMIZER_STEP) continue;
    origin = std::max(origin, event.start_ns);
  }
  return origin;
}

// Returns, by rank and in list order, the starts of the steady step's passes relative to `origin`.
std::vector<std::vector<Nanos>> PassStarts(const Plan& plan, const std::vector<StreamEvent>& events,
                                           Nanos origin) {
  std::vector<std::vector<Nanos>> by_instruction(plan.devices_size());
  for (int r = 0; r < plan.devices_size(); ++r) {
    by_instruction[r].assign(plan.devices(r).instructions_size(), 0);
  }
  for (const StreamEvent& event : events) {
    if (event.stream != TraceEvent::COMPUTE || event.step != 1) continue;
    by_instruction[event.rank][event.instruction] = event.start_ns;
  }
  std::vector<std::vector<Nanos>> starts(plan.devices_size());
  for (int r = 0; r < plan.devices_size(); ++r) {
    for (int i = 0; i < plan.devices(r).instructions_size(); ++i) {
      if (!IsPass(plan.devices(r).instructions(i).kind())) continue;
      starts[r].push_back(by_instruction[r][i] - origin);
    }
  }
  return starts;
}

// Computes FilledPlan.finish_ns.
std::vector<Nanos> Finishes(const Plan& plan, const std::vector<StreamEvent>& events,
                            Nanos origin) {
  std::vector<Nanos> finishes(plan.devices_size(), 0);
  for (const StreamEvent& event : events) {
    if (event.stream != TraceEvent::COMPUTE || event.step != 1) continue;
    const Instruction::Kind kind = InstructionOf(plan, event).kind();
    if (!IsPass(kind) && kind != Instruction::FROZEN_FORWARD) continue;
    finishes[event.rank] = std::max(finishes[event.rank], event.end_ns - origin);
  }
  return finishes;
}

bool AnyLater(const std::vector<std::vector<Nanos>>& starts,
              const std::vector<std::vector<Nanos>>& alone) {
  for (size_t r = 0; r < starts.size(); ++r) {
    for (size_t i = 0; i < starts[r].size(); ++i) {
      if (starts[r][i] > alone[r][i]) return true;
    }
  }
  return false;
}

// Simulates the filled plan. Returns true if a pass starts later than expected.
absl::StatusOr<bool> Measure(const std::vector<std::vector<Nanos>>& expected, const CostModel& cost,
                             FilledPlan* filled) {
  DPIPE_ASSIGN_OR_RETURN(const Simulation simulation, SimulateSteadyState(filled->plan, cost));
  filled->step_ns = simulation.stats.step_ns;
  filled->bubble_ratio = simulation.stats.bubble_ratio;
  const Nanos origin = OriginOf(filled->plan, simulation.events);
  filled->finish_ns = Finishes(filled->plan, simulation.events, origin);
  return AnyLater(PassStarts(filled->plan, simulation.events, origin), expected);
}

// Fills by the published rule, in batches as large as memory allows. If a pass starts later, also
// tries an exchange of outputs between two FLUSHes, and keeps the shorter step.
absl::Status FillByPublishedRule(const Plan& alone, const std::vector<StreamEvent>& events,
                                 const std::vector<std::vector<Nanos>>& expected,
                                 const FillOptions& fill, const CostModel& cost,
                                 FilledPlan* filled) {
  if (fill.exact) {
    return absl::InvalidArgumentError(
        "fill_rule=published is a greedy rule; exact filling needs fill_rule=own");
  }
  PublishedOptions options;
  options.partial_batch = fill.partial_batch;
  options.min_bubble_ns = fill.min_bubble_ns > 0
                              ? fill.min_bubble_ns
                              : static_cast<Nanos>(cost.profile().launch_overhead_ns());
  options.local_batches = fill.local_batches;
  options.margin = fill.margin;
  WeaveOptions weave;
  weave.start_ns = StartsByRank(alone, events);
  const int quantum = cost.frozen_quantum();
  std::vector<FrozenPhase> phases;
  while (true) {
    phases = PlaceByPublishedRule(alone, events, cost, options);
    DPIPE_ASSIGN_OR_RETURN(filled->plan, WeaveFrozenWork(alone, phases, weave, cost));
    const int largest = LargestFrozenBatch(filled->plan);
    if (largest <= quantum || !FrozenWorkExceedsMemory(filled->plan, cost)) break;
    options.max_batch = std::max(1, largest / 2 / quantum) * quantum;
  }
  DPIPE_ASSIGN_OR_RETURN(const bool is_late, Measure(expected, cost, filled));
  if (!is_late) return absl::OkStatus();
  FilledPlan flushed = *filled;
  weave.flush_exchange = true;
  DPIPE_ASSIGN_OR_RETURN(flushed.plan, WeaveFrozenWork(alone, phases, weave, cost));
  DPIPE_RETURN_IF_ERROR(Measure(expected, cost, &flushed).status());
  if (flushed.step_ns < filled->step_ns) *filled = std::move(flushed);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FilledPlan> FillPlan(const PipelineLayout& layout, const Schedule& schedule,
                                    LowerOptions options, const FillOptions& fill,
                                    const CostModel& cost, Nanos step_limit_ns) {
  options.frozen = FrozenPolicy::kFill;
  options.fill.clear();
  options.flush_exchange = false;
  DPIPE_ASSIGN_OR_RETURN(const Plan alone, LowerPlan(layout, schedule, options, cost));
  DPIPE_ASSIGN_OR_RETURN(const Simulation unfilled, SimulateSteadyState(alone, cost));
  FilledPlan filled;
  filled.step_ns = filled.unfilled_step_ns = unfilled.stats.step_ns;
  filled.bubble_ratio = filled.unfilled_bubble_ratio = unfilled.stats.bubble_ratio;
  if (step_limit_ns > 0 && filled.unfilled_step_ns > step_limit_ns) return filled;
  const std::vector<std::vector<Nanos>> expected =
      PassStarts(alone, unfilled.events, OriginOf(alone, unfilled.events));
  if (fill.published) {
    DPIPE_RETURN_IF_ERROR(
        FillByPublishedRule(alone, unfilled.events, expected, fill, cost, &filled));
    return filled;
  }
  DPIPE_ASSIGN_OR_RETURN(options.fill, PlaceFrozenWork(alone, unfilled.events, cost, fill));
  for (bool flush : {false, true}) {
    options.flush_exchange = flush;
    DPIPE_ASSIGN_OR_RETURN(filled.plan, LowerPlan(layout, schedule, options, cost));
    DPIPE_ASSIGN_OR_RETURN(const bool is_late, Measure(expected, cost, &filled));
    if (!is_late) break;
  }
  return filled;
}

}  // namespace dpipe

#include "bench/comparison/simulated_comparison.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "baselines/registry.h"
#include "core/cost/cost_model.h"
#include "core/emulation/emulate.h"
#include "core/planner/search.h"
#include "core/schedule/file_formats/plan_io.h"
#include "core/sim/simulator.h"

namespace dpipe::bench {
namespace {

constexpr int kSimulatedSteps = 4;

// Replaces the simulated results by an emulation of the plan.
absl::Status Emulated(const CostModel& cost, report::StrategyResult* result,
                      StrategyOutcome* outcome) {
  EmulateOptions options;
  options.num_steps = kSimulatedSteps;
  DPIPE_ASSIGN_OR_RETURN(Emulation emulation, Emulate(outcome->plan, cost, options));
  const auto step_ns = static_cast<double>(emulation.stats.step_ns);
  result->step_ms = {step_ns / kNanosPerMilli};
  result->images_per_second = {outcome->plan.global_batch() * kNanosPerSecond / step_ns};
  result->bubble_ratio_measured = emulation.stats.bubble_ratio;
  result->losses = emulation.losses;
  result->loss_check = {"one device without plan", static_cast<int>(emulation.losses.size()),
                        emulation.loss_error, kEmulatedLossTolerance};
  if (!(emulation.loss_error <= kEmulatedLossTolerance)) {
    result->invalid =
        absl::StrFormat("its losses differ from the reference's by %.1e, more than %.1e",
                        emulation.loss_error, kEmulatedLossTolerance);
  }
  outcome->measured = std::move(emulation.trace);
  DPIPE_ASSIGN_OR_RETURN(result->idle_by_reason, IdleByReason(outcome->measured));
  return absl::OkStatus();
}

// Sets the results of a simulation: step, throughput, bubbles, memory.
absl::Status Simulated(const SimulatedComparisonOptions& options, const Comparison& comparison,
                       const Strategy& strategy, report::StrategyResult* result,
                       StrategyOutcome* outcome) {
  PlanOptions plan_options;
  plan_options.global_batch = options.comparison.global_batch;
  plan_options.num_micro_batches = options.comparison.num_micro_batches;
  DPIPE_ASSIGN_OR_RETURN(PlanResult planned,
                         MakePlan(strategy, comparison.profile, comparison.cluster, plan_options));
  outcome->plan = std::move(planned.plan);
  const Plan& plan = outcome->plan;
  DPIPE_ASSIGN_OR_RETURN(const CostModel cost,
                         CostModel::Create(comparison.profile, comparison.cluster));
  SimulateOptions simulate;
  simulate.num_steps = kSimulatedSteps;
  DPIPE_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(plan, cost, simulate));
  outcome->predicted = ToTrace(simulation, plan);
  const auto step_ns = static_cast<double>(planned.expected_step_ns);
  result->step_ms = {step_ns / kNanosPerMilli};
  result->images_per_second = {plan_options.global_batch * kNanosPerSecond / step_ns};
  result->step_ms_planned = result->step_ms_predicted = result->step_ms[0];
  result->step_over_bound =
      step_ns / std::max<double>(1, static_cast<double>(plan.prediction().lower_bound_ns()));
  result->bubble_ratio_predicted = plan.prediction().bubble_ratio();
  result->peak_memory_bytes = simulation.peak_memory_bytes;
  result->is_unfilled_pipeline = strategy.frozen() == "first" && plan.stages_size() > 1;
  result->plan = SummarizePlan(plan);
  DPIPE_ASSIGN_OR_RETURN(result->idle_by_reason, IdleByReason(outcome->predicted));
  return options.emulate ? Emulated(cost, result, outcome) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<Comparison> CompareBySimulation(const SimulatedComparisonOptions& options) {
  Comparison comparison;
  DPIPE_RETURN_IF_ERROR(ReadTextProto(options.profile_path, &comparison.profile));
  DPIPE_RETURN_IF_ERROR(ReadTextProto(options.cluster_path, &comparison.cluster));
  report::BenchResults& results = comparison.results;
  results.benchmark = "suite";
  results.model = options.model;
  results.backend = options.emulate ? "emulated" : "simulated";
  results.dtype = "as profiled";
  results.num_devices = comparison.cluster.num_nodes() * comparison.cluster.devices_per_node();
  results.global_batch = options.comparison.global_batch;
  results.flags["profile"] = options.profile_path;
  results.flags["cluster"] = options.cluster_path;
  for (const std::string& name : options.comparison.strategies) {
    const auto& stop_requested = options.comparison.stop_requested;
    const std::string stopped_by = stop_requested ? stop_requested() : "";
    if (!stopped_by.empty()) {
      return absl::CancelledError(absl::StrCat("stopped by ", stopped_by, " before ", name));
    }
    report::StrategyResult result;
    StrategyOutcome outcome;
    result.strategy = name;
    DPIPE_ASSIGN_OR_RETURN(const Strategy strategy, FindStrategy(name));
    const absl::Status status = Simulated(options, comparison, strategy, &result, &outcome);
    if (!status.ok()) result.skipped = std::string(status.message());
    results.results.push_back(std::move(result));
    comparison.outcomes.push_back(std::move(outcome));
  }
  report::ComputeSpeedups(&results);
  return comparison;
}

}  // namespace dpipe::bench

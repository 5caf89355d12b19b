#include "bench/comparison/simulated_comparison.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "baselines/registry.h"
#include "core/cost/cost_model.h"
#include "core/emulation/emulate.h"
#include "core/planner/search.h"
#include "core/report/results/results.h"
#include "core/schedule/file_formats/plan_io.h"
#include "core/sim/simulator.h"

namespace dpipe::bench {
namespace {

constexpr int kSimulatedSteps = 4;

// Sets a step without noise, as a single turn.
void SetStep(const Plan& plan, double step_ns, StrategyResult* result) {
  result->clear_step_ms();
  result->add_step_ms(step_ns / kNanosPerMilli);
  result->clear_images_per_second();
  result->add_images_per_second(plan.global_batch() * kNanosPerSecond / step_ns);
}

// Replaces the simulated results by an emulation of the plan.
absl::Status Emulated(const CostModel& cost, StrategyResult* result, StrategyOutcome* outcome) {
  EmulateOptions options;
  options.num_steps = kSimulatedSteps;
  DPIPE_ASSIGN_OR_RETURN(Emulation emulation, Emulate(outcome->plan, cost, options));
  const auto step_ns = static_cast<double>(emulation.stats.step_ns);
  SetStep(outcome->plan, step_ns, result);
  result->set_bubble_ratio_measured(emulation.stats.bubble_ratio);
  *result->mutable_losses() = {emulation.losses.begin(), emulation.losses.end()};
  LossCheck& check = *result->mutable_loss_check();
  check.set_reference("one device without plan");
  check.set_num_steps(static_cast<int>(emulation.losses.size()));
  check.set_max_relative_difference(emulation.loss_error);
  check.set_tolerance(kEmulatedLossTolerance);
  if (!(emulation.loss_error <= kEmulatedLossTolerance)) {
    result->set_invalid(
        absl::StrFormat("its losses differ from the reference's by %.1e, more than %.1e",
                        emulation.loss_error, kEmulatedLossTolerance));
  }
  outcome->measured = std::move(emulation.trace);
  return SetIdleByReason(outcome->measured, result);
}

// Sets the results of a simulation: step, throughput, bubbles, memory.
absl::Status Simulated(const SimulatedComparisonOptions& options, const Comparison& comparison,
                       const Strategy& strategy, StrategyResult* result, StrategyOutcome* outcome) {
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
  SetStep(plan, step_ns, result);
  SetPrediction(plan, result);
  result->set_step_ms_planned(step_ns / kNanosPerMilli);
  result->set_step_ms_predicted(step_ns / kNanosPerMilli);
  *result->mutable_peak_memory_bytes() = {simulation.peak_memory_bytes.begin(),
                                          simulation.peak_memory_bytes.end()};
  result->set_is_unfilled_pipeline(IsUnfilledPipeline(strategy, plan));
  *result->mutable_plan() = SummarizePlan(plan);
  DPIPE_RETURN_IF_ERROR(SetIdleByReason(outcome->predicted, result));
  return options.emulate ? Emulated(cost, result, outcome) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<Comparison> CompareBySimulation(const SimulatedComparisonOptions& options) {
  Comparison comparison;
  DPIPE_RETURN_IF_ERROR(ReadTextProto(options.profile_path, &comparison.profile));
  DPIPE_RETURN_IF_ERROR(ReadTextProto(options.cluster_path, &comparison.cluster));
  CaseResult& results = comparison.results;
  results.set_model(options.model);
  results.set_backend(options.emulate ? report::kEmulatedBackend : "simulated");
  results.set_dtype("as profiled");
  results.set_num_devices(comparison.cluster.num_nodes() * comparison.cluster.devices_per_node());
  results.set_global_batch(options.comparison.global_batch);
  (*results.mutable_flags())["profile"] = options.profile_path;
  (*results.mutable_flags())["cluster"] = options.cluster_path;
  for (const std::string& name : options.comparison.strategies) {
    const auto& stop_requested = options.comparison.stop_requested;
    const std::string stopped_by = stop_requested ? stop_requested() : "";
    if (!stopped_by.empty()) {
      return absl::CancelledError(absl::StrCat("stopped by ", stopped_by, " before ", name));
    }
    StrategyResult result;
    StrategyOutcome outcome;
    result.set_strategy(name);
    DPIPE_ASSIGN_OR_RETURN(const Strategy strategy, FindStrategy(name));
    const absl::Status status = Simulated(options, comparison, strategy, &result, &outcome);
    if (!status.ok()) result.set_skipped(std::string(status.message()));
    *results.add_strategies() = std::move(result);
    comparison.outcomes.push_back(std::move(outcome));
  }
  return comparison;
}

}  // namespace dpipe::bench

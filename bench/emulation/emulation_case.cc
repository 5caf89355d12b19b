#include "bench/emulation/emulation_case.h"

#include <cmath>

#include "baselines/registry.h"
#include "core/emulation/compare_traces.h"
#include "core/planner/search.h"
#include "core/sim/simulator.h"

namespace dpipe::bench {

double EmulationResult::difference() const {
  if (simulated_step_ns <= 0) return 0;
  return static_cast<double>(emulated_step_ns) / static_cast<double>(simulated_step_ns) - 1;
}

absl::StatusOr<EmulationResult> CompareWithSimulation(const Plan& plan, const CostModel& cost,
                                                      const EmulateOptions& options) {
  SimulateOptions simulate;
  simulate.num_steps = options.num_steps;
  simulate.critical_path = simulate.memory = false;
  DPIPE_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(plan, cost, simulate));
  DPIPE_ASSIGN_OR_RETURN(const Emulation emulation, Emulate(plan, cost, options));
  DPIPE_ASSIGN_OR_RETURN(
      const TraceDifference difference,
      CompareTraces(plan, simulation.events, EventsOf(emulation.trace), WorksAcrossSteps(plan)));
  EmulationResult result;
  result.model = plan.model();
  result.cluster = cost.cluster().name();
  result.num_devices = plan.num_devices();
  result.global_batch = plan.global_batch();
  result.strategy = plan.strategy();
  result.num_stages = plan.stages_size();
  result.num_micro_batches = plan.num_micro_batches();
  result.micro_batch_size = plan.micro_batch_size();
  for (const DeviceProgram& device : plan.devices()) {
    result.num_instructions += device.instructions_size();
  }
  result.simulated_step_ns = simulation.stats.step_ns;
  result.emulated_step_ns = emulation.stats.step_ns;
  result.simulated_bubble_ratio = simulation.stats.bubble_ratio;
  result.emulated_bubble_ratio = emulation.stats.bubble_ratio;
  result.loss_error = emulation.loss_error;
  result.worst = DifferenceText(plan, difference.worst);
  result.first = DifferenceText(plan, difference.first);
  result.virtual_ns = emulation.virtual_ns;
  result.real_ns = emulation.real_ns;
  result.worst_late_ns = emulation.worst_lateness_ns;
  return result;
}

absl::StatusOr<EmulationResult> RunEmulationCase(const ModelProfile& profile,
                                                 const ClusterSpec& cluster,
                                                 const std::string& strategy, int global_batch,
                                                 const EmulateOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const CostModel cost, CostModel::Create(profile, cluster));
  DPIPE_ASSIGN_OR_RETURN(const Strategy found, FindStrategy(strategy));
  PlanOptions plan_options;
  plan_options.global_batch = global_batch;
  const auto planned = MakePlan(found, profile, cluster, plan_options);
  EmulationResult result;
  if (planned.ok()) {
    DPIPE_ASSIGN_OR_RETURN(result, CompareWithSimulation(planned->plan, cost, options));
  } else {
    result.refusal = std::string(planned.status().message());
  }
  result.model = profile.model();
  result.cluster = cluster.name();
  result.num_devices = cost.num_devices();
  result.global_batch = global_batch;
  result.strategy = strategy;
  return result;
}

}  // namespace dpipe::bench

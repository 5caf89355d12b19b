#include "core/emulation/emulate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/emulation/emulated_cluster.h"
#include "core/emulation/emulated_model.h"
#include "core/emulation/reference_losses.h"
#include "core/runtime/session/local_session.h"
#include "core/tensor/device_worker.h"

namespace dpipe {
namespace {

// Replaces the session's record of communication, which has hand-over times, by the network's.
Trace JoinTraces(const Trace& executed, std::vector<TraceEvent> network) {
  std::vector<TraceEvent> events;
  for (const TraceEvent& event : executed.events()) {
    if (event.stream() == TraceEvent::COMPUTE) events.push_back(event);
  }
  for (TraceEvent& event : network) {
    if (event.step() >= 0) events.push_back(std::move(event));
  }
  std::stable_sort(events.begin(), events.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return a.start_ns() < b.start_ns();
  });
  Trace trace;
  trace.set_source(Trace::EMULATED);
  *trace.mutable_plan() = executed.plan();
  for (TraceEvent& event : events) *trace.add_events() = std::move(event);
  *trace.mutable_step_start_ns() = executed.step_start_ns();
  return trace;
}

bool SelfConditions(const Plan& plan) {
  return std::any_of(plan.stages().begin(), plan.stages().end(),
                     [](const Stage& stage) { return stage.forward_only(); });
}

double RelativeError(double actual, double expected) {
  return std::abs(actual - expected) / std::max(1e-3, std::abs(expected));
}

}  // namespace

absl::StatusOr<Emulation> Emulate(const Plan& plan, const CostModel& cost,
                                  const EmulateOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const nn::Model model, MakeEmulatedModel(cost.profile()));
  EmulatedInputs inputs(&model, options.seed);
  DPIPE_ASSIGN_OR_RETURN(const std::unique_ptr<EmulatedCluster> cluster,
                         EmulatedCluster::Create(&plan, &cost, options.clock));
  const std::vector<std::shared_ptr<Device>> devices(plan.num_devices(), Device::Cpu());
  const auto workers = StartWorkers(devices);

  LocalSessionOptions session_options;
  session_options.plan = plan;
  session_options.model = &model;
  for (const auto& worker : workers) session_options.workers.push_back(worker.get());
  session_options.communicators = cluster->MakeCommunicators();
  session_options.clock = cluster.get();
  session_options.inputs = &inputs;
  session_options.frozen_parameters = inputs.frozen_parameters();
  const nn::ParameterSourcePtr initial = nn::SourceOf(inputs.backbone_parameters());
  session_options.initial_parameters = initial.get();
  session_options.optimizer = EmulatedOptimizer();
  DPIPE_ASSIGN_OR_RETURN(const auto session, LocalSession::Create(std::move(session_options)));

  const Nanos begin = MonotonicNow();
  DPIPE_ASSIGN_OR_RETURN(const RunResult result,
                         session->Run(options.num_steps, /*is_last=*/true, /*record=*/true));
  Emulation emulation;
  emulation.real_ns = MonotonicNow() - begin;
  emulation.worst_lateness_ns = cluster->clock().worst_lateness_ns();
  for (const StepResult& step : result.steps) {
    emulation.losses.push_back(step.loss);
    emulation.virtual_ns += step.duration_ns;
  }
  DPIPE_ASSIGN_OR_RETURN(const std::vector<double> reference,
                         ReferenceLosses(model, &inputs, plan.global_batch(), SelfConditions(plan),
                                         options.num_steps));
  for (int i = 0; i < options.num_steps; ++i) {
    emulation.loss_error =
        std::max(emulation.loss_error, RelativeError(emulation.losses[i], reference[i]));
  }
  emulation.trace = JoinTraces(result.trace, cluster->TakeEvents());
  DPIPE_ASSIGN_OR_RETURN(emulation.stats, ComputeTraceStats(emulation.trace));
  return emulation;
}

}  // namespace dpipe

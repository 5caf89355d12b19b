#include "tests/testlib/training.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "baselines/registry.h"
#include "core/base/philox.h"
#include "core/planner/search.h"
#include "core/profile/describe.h"

namespace dpipe::testlib {

ModelProfile SyntheticProfile(const nn::Model& model, DType compute_dtype, int frozen_quantum,
                              const std::vector<int>& local_batches, uint64_t seed) {
  ModelProfile profile;
  profile.set_model(model.name());
  profile.set_device("synthetic");
  profile.set_dtype(std::string(DTypeName(compute_dtype)));
  profile.set_frozen_quantum(frozen_quantum);
  profile.set_launch_overhead_ns(kNanosPerMicro);
  profile.set_cached_load_ns_per_sample(kNanosPerMicro);
  for (int c = 0; c < model.num_components(); ++c) {
    ComponentProfile* component = profile.add_components();
    *component = DescribeComponent(model.component(c), compute_dtype);
    component->set_load_ns_per_sample(2 * kNanosPerMicro);
    RandomStream stream(seed, c, 0, RandomPurpose::kTest);
    for (LayerProfile& layer : *component->mutable_layers()) {
      layer.set_saved_bytes_per_sample(component->is_backbone() ? 4096 : 0);
      layer.set_optimizer_step_ns(kNanosPerMicro);
      const Nanos per_sample = (10 + stream.NextBelow(90)) * kNanosPerMicro;
      const std::vector<int> batches =
          component->is_backbone() ? local_batches : std::vector<int>{frozen_quantum};
      for (int batch : batches) {
        LayerTiming* timing = layer.add_timings();
        timing->set_local_batch(batch);
        timing->set_forward_ns(per_sample * batch);
        if (!component->is_backbone()) continue;
        timing->set_input_grad_ns(per_sample * batch);
        timing->set_weight_grad_ns(per_sample * batch * 3 / 4);
      }
    }
  }
  return profile;
}

absl::StatusOr<Plan> MakeTestPlan(const ModelProfile& profile, const PlanRequest& request) {
  DPIPE_ASSIGN_OR_RETURN(TestPlans plans, MakeTestPlans(profile, request));
  return std::move(plans.plain);
}

absl::StatusOr<TestPlans> MakeTestPlans(const ModelProfile& profile, const PlanRequest& request) {
  ClusterSpec cluster;
  cluster.set_name("test");
  cluster.set_num_nodes(1);
  cluster.set_devices_per_node(request.num_devices);
  cluster.set_collectives_use_compute(true);
  cluster.set_memory_bytes_per_device(request.memory_bytes);
  for (Link* link : {cluster.mutable_intra_node(), cluster.mutable_inter_node()}) {
    link->set_latency_ns(5 * kNanosPerMicro);
    link->set_bandwidth_bytes_per_s(1e10);
  }
  DPIPE_ASSIGN_OR_RETURN(const Strategy strategy, FindStrategy(request.strategy));
  PlanOptions options;
  options.global_batch = request.global_batch;
  options.num_micro_batches = request.num_micro_batches;
  options.micro_batch_size = request.micro_batch_size;
  options.num_stages = request.num_stages;
  DPIPE_ASSIGN_OR_RETURN(PlanResult result, MakePlan(strategy, profile, cluster, options));
  return TestPlans{std::move(result.plan), std::move(result.self_conditioned_plan)};
}

absl::StatusOr<TrainingOutcome> Train(const TrainingJob& job, const Plan& plan, int steps,
                                      int steps_per_run) {
  if (steps_per_run == 0) steps_per_run = steps;
  DPIPE_ASSIGN_OR_RETURN(auto session, StartSession(job, plan));
  TrainingOutcome outcome;
  for (int done = 0; done < steps; done += steps_per_run) {
    const int count = std::min(steps_per_run, steps - done);
    const bool is_last = done + count == steps;
    DPIPE_ASSIGN_OR_RETURN(RunResult run, session->Run(count, is_last, /*record=*/is_last));
    for (const StepResult& step : run.steps) outcome.losses.push_back(step.loss);
    outcome.trace = std::move(run.trace);
  }
  DPIPE_ASSIGN_OR_RETURN(outcome.parameters, session->CollectParameters());
  return outcome;
}

std::string FirstDifference(const TrainingOutcome& a, const TrainingOutcome& b) {
  if (a.losses.size() != b.losses.size()) return "numbers of steps";
  for (size_t i = 0; i < a.losses.size(); ++i) {
    if (a.losses[i] != b.losses[i]) {
      return absl::StrCat("loss of step ", i, ": ", a.losses[i], " and ", b.losses[i]);
    }
  }
  if (a.parameters.size() != b.parameters.size()) return "numbers of parameters";
  for (const auto& [name, tensor] : a.parameters) {
    const auto other = b.parameters.find(name);
    if (other == b.parameters.end()) return absl::StrCat("parameter ", name, " is missing");
    if (std::memcmp(tensor.raw_data(), other->second.raw_data(), tensor.size_bytes()) != 0) {
      return absl::StrCat("parameter ", name);
    }
  }
  return "";
}

double LargestRelativeDifference(const TrainingOutcome& a, const TrainingOutcome& b) {
  double largest = 0;
  for (size_t i = 0; i < a.losses.size(); ++i) {
    largest = std::max(largest, std::abs(a.losses[i] - b.losses[i]) / std::abs(a.losses[i]));
  }
  for (const auto& [name, tensor] : a.parameters) {
    const float* x = tensor.data<float>();
    const float* y = b.parameters.at(name).data<float>();
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      difference += (x[i] - y[i]) * (x[i] - y[i]);
      norm += x[i] * x[i];
    }
    if (norm > 0) largest = std::max(largest, std::sqrt(difference / norm));
  }
  return largest;
}

}  // namespace dpipe::testlib

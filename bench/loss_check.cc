#include "bench/loss_check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "baselines/registry.h"
#include "core/planner/search.h"

namespace dpipe::bench {
namespace {

// Why the losses do not count, or "".
std::string WhatIsWrong(const std::vector<double>& losses, const std::vector<double>& expected,
                        report::LossCheck* check) {
  check->max_relative_difference = 0;
  for (size_t i = 0; i < losses.size(); ++i) {
    if (!std::isfinite(losses[i])) {
      return absl::StrFormat("the loss of step %d is %g", i, losses[i]);
    }
    if (i >= expected.size()) continue;
    const double difference = std::abs(losses[i] - expected[i]) / std::abs(expected[i]);
    check->max_relative_difference = std::max(check->max_relative_difference, difference);
    check->num_steps = static_cast<int>(i) + 1;
    if (difference <= check->tolerance) continue;
    return absl::StrFormat("the loss of step %d is %.9g, but %.9g on %s: %.1e apart, over %.1e", i,
                           losses[i], expected[i], check->reference, difference, check->tolerance);
  }
  return losses.empty() ? "it has no losses" : "";
}

}  // namespace

absl::StatusOr<std::vector<double>> OneDeviceLosses(const TrainingJob& job,
                                                    const ModelProfile& profile, int global_batch,
                                                    int num_steps) {
  TrainingJob one_device = job;
  one_device.workers.resize(1);
  one_device.processes = nullptr;
  DPIPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, MeasureCluster(one_device));
  DPIPE_ASSIGN_OR_RETURN(const Strategy strategy, FindStrategy("data_parallel"));
  PlanOptions options;
  options.global_batch = global_batch;
  DPIPE_ASSIGN_OR_RETURN(const PlanResult planned, MakePlan(strategy, profile, cluster, options));
  DPIPE_ASSIGN_OR_RETURN(const auto session, StartSession(one_device, planned.plan));
  DPIPE_ASSIGN_OR_RETURN(const RunResult run,
                         session->Run(num_steps, /*is_last=*/true, /*record=*/false));
  std::vector<double> losses;
  for (const StepResult& step : run.steps) losses.push_back(step.loss);
  return losses;
}

double LossTolerance(DType compute_dtype) { return compute_dtype == DType::kF32 ? 1e-4 : 2e-2; }

void CheckLosses(const std::vector<double>& reference, double tolerance,
                 std::vector<report::StrategyResult>* results) {
  std::vector<double> expected = reference;
  std::string name = reference.empty() ? "" : "one device";
  for (report::StrategyResult& result : *results) {
    if (!result.skipped.empty()) continue;
    result.loss_check.reference = name;
    result.loss_check.tolerance = tolerance;
    result.invalid = WhatIsWrong(result.losses, expected, &result.loss_check);
    if (!result.invalid.empty() || result.losses.size() <= expected.size()) continue;
    expected.insert(expected.end(), result.losses.begin() + expected.size(), result.losses.end());
    name = name.empty() ? result.strategy : name + ", then " + result.strategy;
  }
}

}  // namespace dpipe::bench

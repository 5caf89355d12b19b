#include "bench/comparison/loss_check.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "baselines/registry.h"
#include "core/planner/search.h"
#include "core/report/results/results.h"

namespace dpipe::bench {
namespace {

constexpr char kOneDevice[] = "one device";
constexpr char kOthers[] = "the other strategies";

// One of the numbers of a step.
struct Quantity {
  const char* name;
  double tolerance, early_tolerance;
  std::vector<double> StepNumbers::*numbers;
  double (LossCheck::*largest)() const;  // difference
  void (LossCheck::*set_largest)(double);

  double ToleranceAt(int step) const { return step < kEarlySteps ? early_tolerance : tolerance; }
};

std::vector<Quantity> Quantities(const StepTolerance& tolerance) {
  return {{"loss", tolerance.loss, tolerance.loss, &StepNumbers::losses,
           &LossCheck::max_relative_difference, &LossCheck::set_max_relative_difference},
          {"gradients' global norm", tolerance.gradient_norm, tolerance.early_gradient_norm,
           &StepNumbers::gradient_norms, &LossCheck::max_gradient_norm_difference,
           &LossCheck::set_max_gradient_norm_difference}};
}

// The first step at which two runs differ by more than the tolerance.
struct Parting {
  int step = 0;
  Quantity quantity;
  double one = 0, other = 0;
};

double Apart(double a, double b) {
  return a == b ? 0 : std::abs(a - b) / std::max(std::abs(a), std::abs(b));
}

StepNumbers NumbersOf(const StrategyResult& result) {
  return {report::Numbers(result.losses()), report::Numbers(result.gradient_norms())};
}

std::string DescribeNotFinite(const StrategyResult& result) {
  const StepNumbers numbers = NumbersOf(result);
  for (const Quantity& quantity : Quantities({})) {
    const std::vector<double>& values = numbers.*quantity.numbers;
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) continue;
      return absl::StrFormat("the %s of step %d is %g", quantity.name, i, values[i]);
    }
  }
  return result.losses().empty() ? "it has no losses" : "";
}

// Compares the common steps from `first_step` on. `check` records the maximum differences.
std::optional<Parting> FirstParting(const StepNumbers& one, const StepNumbers& other,
                                    int first_step, const StepTolerance& tolerance,
                                    LossCheck* check) {
  std::optional<Parting> parting;
  for (const Quantity& quantity : Quantities(tolerance)) {
    const std::vector<double>& a = one.*quantity.numbers;
    const std::vector<double>& b = other.*quantity.numbers;
    double largest = (check->*quantity.largest)();
    const int steps = static_cast<int>(std::min(a.size(), b.size()));
    for (int i = first_step; i < steps; ++i) {
      const double apart = Apart(a[i], b[i]);
      largest = std::fmax(largest, apart);  // fmax ignores NaN
      if (apart <= quantity.ToleranceAt(i) || (parting.has_value() && parting->step <= i)) continue;
      parting = {i, quantity, a[i], b[i]};
    }
    if (!std::isnan(largest)) (check->*quantity.set_largest)(largest);
  }
  const size_t both = std::min(one.losses.size(), other.losses.size());
  if (both > static_cast<size_t>(first_step)) {
    check->set_num_steps(std::max(check->num_steps(), static_cast<int>(both)));
  }
  return parting;
}

std::string DifferenceText(const Parting& parting) {
  return absl::StrFormat("difference %.1e exceeds %.1e", Apart(parting.one, parting.other),
                         parting.quantity.ToleranceAt(parting.step));
}

// Compares the strategies that have passed with each other, from `first_step` on.
std::optional<int> CheckAgainstEachOther(const std::vector<StrategyResult*>& passed, int first_step,
                                         const StepTolerance& tolerance) {
  std::optional<Parting> earliest;
  const StrategyResult* parted = nullptr;
  for (size_t i = 1; i < passed.size(); ++i) {
    StrategyResult &first = *passed[0], &other = *passed[i];
    const int compared_before = other.loss_check().num_steps();
    const auto parting = FirstParting(NumbersOf(first), NumbersOf(other), first_step, tolerance,
                                      other.mutable_loss_check());
    if (other.loss_check().num_steps() > compared_before) {
      FirstParting(NumbersOf(other), NumbersOf(first), first_step, tolerance,
                   first.mutable_loss_check());
      for (StrategyResult* result : {&first, &other}) {
        result->mutable_loss_check()->set_reference(
            first_step == 0 ? kOthers : absl::StrCat(kOneDevice, ", then ", kOthers));
      }
    }
    if (!parting.has_value() || (earliest.has_value() && earliest->step <= parting->step)) continue;
    earliest = parting;
    parted = &other;
  }
  if (!earliest.has_value()) return std::nullopt;
  const std::string reason = absl::StrFormat(
      "strategies that should agree differ, and there is no reference: the %s of step %d is %.9g "
      "by %s, but %.9g by %s: %s",
      earliest->quantity.name, earliest->step, earliest->one, passed[0]->strategy(),
      earliest->other, parted->strategy(), DifferenceText(*earliest));
  for (StrategyResult* result : passed) result->set_invalid(reason);
  return earliest->step;
}

}  // namespace

absl::StatusOr<StepNumbers> OneDeviceSteps(const TrainingJob& job, const ModelProfile& profile,
                                           int global_batch, int num_micro_batches, int num_steps) {
  TrainingJob one_device = job;
  one_device.workers.resize(1);
  one_device.processes = nullptr;
  DPIPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, MeasureCluster(one_device));
  DPIPE_ASSIGN_OR_RETURN(const Strategy strategy, FindStrategy("data_parallel"));
  PlanOptions options;
  options.global_batch = global_batch;
  options.num_micro_batches = num_micro_batches;
  DPIPE_ASSIGN_OR_RETURN(const PlanResult planned, MakePlan(strategy, profile, cluster, options));
  DPIPE_ASSIGN_OR_RETURN(const auto session, StartSession(one_device, planned.plan));
  DPIPE_ASSIGN_OR_RETURN(const RunResult run,
                         session->Run(num_steps, /*is_last=*/true, /*record=*/false));
  StepNumbers numbers;
  for (const StepResult& step : run.steps) {
    numbers.losses.push_back(step.loss);
    if (step.grad_norm >= 0) numbers.gradient_norms.push_back(step.grad_norm);
  }
  return numbers;
}

StepTolerance ToleranceOf(DType compute_dtype) {
  return compute_dtype == DType::kF32 ? StepTolerance{2e-6, 1e-4, 5e-5}
                                      : StepTolerance{1.5e-2, 0.2, 2e-2};
}

std::optional<int> CheckSteps(const StepNumbers& reference, const StepTolerance& tolerance,
                              google::protobuf::RepeatedPtrField<StrategyResult>* results) {
  std::vector<StrategyResult*> passed;
  for (StrategyResult& result : *results) {
    if (!result.skipped().empty()) continue;
    LossCheck& check = *result.mutable_loss_check();
    check.Clear();
    check.set_tolerance(tolerance.loss);
    check.set_gradient_norm_tolerance(tolerance.gradient_norm);
    result.set_invalid(DescribeNotFinite(result));
    if (!result.invalid().empty() || result.changes_mathematics()) continue;
    if (!reference.losses.empty()) check.set_reference(kOneDevice);
    const auto parting = FirstParting(NumbersOf(result), reference, 0, tolerance, &check);
    if (parting.has_value()) {
      result.set_invalid(absl::StrFormat("the %s of step %d is %.9g, but %.9g on %s: %s",
                                         parting->quantity.name, parting->step, parting->one,
                                         parting->other, kOneDevice, DifferenceText(*parting)));
    } else {
      passed.push_back(&result);
    }
  }
  return CheckAgainstEachOther(passed, static_cast<int>(reference.losses.size()), tolerance);
}

}  // namespace dpipe::bench

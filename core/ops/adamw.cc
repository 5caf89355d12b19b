#include "core/ops/adamw.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/ops/adamw_kernels.h"
#include "core/ops/backend.h"

namespace dpipe::ops {
namespace {

AdamWFactors Fold(const AdamWParams& params, int64_t step, float grad_scale) {
  const double bias1 = 1 - std::pow(double{params.beta1}, static_cast<double>(step));
  const double bias2 = 1 - std::pow(double{params.beta2}, static_cast<double>(step));
  AdamWFactors factors;
  factors.grad_scale = grad_scale;
  factors.decay =
      static_cast<float>(1 - double{params.learning_rate} * double{params.weight_decay});
  factors.one_minus_beta1 = static_cast<float>(1 - double{params.beta1});
  factors.beta2 = params.beta2;
  factors.one_minus_beta2 = static_cast<float>(1 - double{params.beta2});
  factors.step_size = static_cast<float>(params.learning_rate / bias1);
  factors.inverse_sqrt_bias2 = static_cast<float>(1 / std::sqrt(bias2));
  factors.eps = params.eps;
  return factors;
}

}  // namespace

absl::Status AdamWStep(const AdamWParams& params, int64_t step, float grad_scale,
                       const Tensor& grad, Tensor* parameter, Tensor* m, Tensor* v) {
  return AdamWSteps({{params, grad, *parameter, *m, *v}}, step, grad_scale);
}

absl::Status AdamWSteps(absl::Span<const AdamWUpdate> updates, int64_t step, float grad_scale) {
  DPIPE_CHECK_GE(step, 1);
  if (updates.empty()) return absl::OkStatus();
  std::vector<cuda::AdamWTask> tasks;
  for (const AdamWUpdate& update : updates) {
    for (const Tensor* t : {&update.grad, &update.parameter, &update.m, &update.v}) {
      CheckFp32(*t, update.grad.shape());
    }
    tasks.push_back(
        {Fold(update.params, step, grad_scale), update.grad, update.parameter, update.m, update.v});
  }
  const auto one_by_one = [&](const auto& run) {
    for (cuda::AdamWTask& task : tasks) {
      run(task.factors, task.grad, &task.parameter, &task.m, &task.v);
    }
  };
  return RunOn(
      *updates[0].grad.device(), "adamw", [&] { one_by_one(ref::AdamWStep); },
      [&] { one_by_one(cpu::AdamWStep); }, [&] { cuda::AdamWSteps(tasks); });
}

absl::StatusOr<std::vector<double>> SumsOfSquares(absl::Span<const Tensor> tensors) {
  std::vector<double> sums;
  if (tensors.empty()) return sums;
  for (const Tensor& x : tensors) CheckFp32(x, x.shape());
  const auto one_by_one = [&](const auto& sum_of_squares) {
    for (const Tensor& x : tensors) sums.push_back(sum_of_squares(x));
  };
  DPIPE_RETURN_IF_ERROR(RunOn(
      *tensors[0].device(), "sums_of_squares", [&] { one_by_one(ref::SumOfSquares); },
      [&] { one_by_one(cpu::SumOfSquares); }, [&] { sums = cuda::SumsOfSquares(tensors); }));
  return sums;
}

absl::StatusOr<double> SumOfSquares(const Tensor& x) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<double> sums, SumsOfSquares({x}));
  return sums[0];
}

double GlobalNorm(absl::Span<const double> sums_of_squares) {
  double sum = 0;
  for (double s : sums_of_squares) sum += s;
  return std::sqrt(sum);
}

float ClipScale(double norm, double max_norm) {
  if (max_norm <= 0) return 1;
  if (!std::isfinite(norm)) return std::nanf("");
  return static_cast<float>(std::min(1.0, max_norm / (norm + 1e-6)));
}

absl::Status EmaUpdate(float decay, const Tensor& value, Tensor* average) {
  CheckFp32(value, value.shape());
  CheckFp32(*average, value.shape());
  return RunOn(
      *value.device(), "ema", [&] { ref::EmaUpdate(decay, value, average); },
      [&] { cpu::EmaUpdate(decay, value, average); },
      [&] { cuda::EmaUpdate(decay, value, average); });
}

}  // namespace dpipe::ops

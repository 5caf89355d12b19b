#include "core/ops/optimizer/adamw.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/ops/optimizer/adamw_kernels.h"
#include "core/ops/support/backend.h"

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
  std::vector<AdamWTask> tasks;
  for (const AdamWUpdate& update : updates) {
    for (const Tensor* t : {&update.grad, &update.parameter, &update.m, &update.v}) {
      CheckFp32(*t, update.grad.shape());
    }
    tasks.push_back(
        {Fold(update.params, step, grad_scale), update.grad, update.parameter, update.m, update.v});
  }
  const auto one_by_one = [&](const auto& run) {
    for (AdamWTask& task : tasks) {
      run(task.factors, task.grad, &task.parameter, &task.m, &task.v);
    }
  };
  return RunOn(
      *updates[0].grad.device(), "adamw", [&] { one_by_one(ref::AdamWStep); },
      [&] { one_by_one(cpu::AdamWStep); }, [&] { cuda::AdamWSteps(tasks); });
}

absl::Status AdamWPredict(const AdamWParams& params, int64_t step, int times,
                          absl::Span<const AdamWPrediction> predictions) {
  DPIPE_CHECK_GE(step, 1);
  if (predictions.empty()) return absl::OkStatus();
  AdamWFactors factors = Fold(params, step, /*grad_scale=*/0);
  factors.decay = 1;
  factors.step_size *= static_cast<float>(times);
  for (const AdamWPrediction& prediction : predictions) {
    for (const Tensor* t : {&prediction.parameter, &prediction.m, &prediction.v}) {
      CheckFp32(*t, prediction.parameter.shape());
    }
  }
  const auto one_by_one = [&](const auto& run) {
    for (const AdamWPrediction& prediction : predictions) run(factors, prediction);
  };
  return RunOn(
      *predictions[0].parameter.device(), "adamw_predict", [&] { one_by_one(ref::AdamWPredict); },
      [&] { one_by_one(cpu::AdamWPredict); }, [&] { cuda::AdamWPredict(factors, predictions); });
}

absl::Status AdamWInt8Steps(absl::Span<const AdamWInt8Update> updates, int64_t step,
                            float grad_scale) {
  DPIPE_CHECK_GE(step, 1);
  if (updates.empty()) return absl::OkStatus();
  std::vector<AdamWInt8Task> tasks;
  for (const AdamWInt8Update& update : updates) {
    CheckFp32(update.grad, update.grad.shape());
    CheckFp32(update.parameter, update.grad.shape());
    for (const BlockQuantized* moment : {update.m, update.root_v}) {
      DPIPE_CHECK_EQ(moment->size(), update.grad.num_elements());
      DPIPE_CHECK_EQ(moment->block_size(), update.m->block_size());
    }
    tasks.push_back({Fold(update.params, step, grad_scale), update.grad, update.parameter, update.m,
                     update.root_v});
  }
  const auto one_by_one = [&](const auto& run) {
    for (const AdamWInt8Task& task : tasks) run(task);
  };
  return RunOn(
      *updates[0].grad.device(), "adamw_int8", [&] { one_by_one(ref::AdamWInt8Step); },
      [&] { one_by_one(cpu::AdamWInt8Step); }, [&] { cuda::AdamWInt8Steps(tasks); });
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

}  // namespace dpipe::ops

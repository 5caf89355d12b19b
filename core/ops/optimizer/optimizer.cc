#include "core/ops/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/ops/optimizer/optimizer_kernels.h"
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
  return RunKernel(*updates[0].grad.device(), "adamw", &OptimizerKernels::adamw_steps, tasks);
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
  return RunKernel(*predictions[0].parameter.device(), "adamw_predict",
                   &OptimizerKernels::adamw_predict, factors, predictions);
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
  return RunKernel(*updates[0].grad.device(), "adamw_int8", &OptimizerKernels::adamw_int8_steps,
                   tasks);
}

absl::StatusOr<std::vector<double>> SumsOfSquares(absl::Span<const Tensor> tensors) {
  std::vector<double> sums;
  if (tensors.empty()) return sums;
  for (const Tensor& x : tensors) CheckFp32(x, x.shape());
  DPIPE_RETURN_IF_ERROR(RunKernel(*tensors[0].device(), "sums_of_squares",
                                  &OptimizerKernels::sums_of_squares, tensors, &sums));
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

absl::Status Axpby(float a, float b, absl::Span<const AxpbyPair> pairs) {
  if (pairs.empty()) return absl::OkStatus();
  for (const AxpbyPair& pair : pairs) {
    CheckFp32(pair.x, pair.y.shape());
    CheckFp32(pair.y, pair.y.shape());
  }
  return RunKernel(*pairs[0].y.device(), "axpby", &OptimizerKernels::axpby, a, b, pairs);
}

}  // namespace dpipe::ops

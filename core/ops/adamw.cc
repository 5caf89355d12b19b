#include "core/ops/adamw.h"

#include <algorithm>
#include <cmath>

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
  DPIPE_CHECK_GE(step, 1);
  CheckFp32(grad, grad.shape());
  for (const Tensor* t : {parameter, m, v}) CheckFp32(*t, grad.shape());
  const AdamWFactors factors = Fold(params, step, grad_scale);
  return RunOn(
      *grad.device(), "adamw", [&] { ref::AdamWStep(factors, grad, parameter, m, v); },
      [&] { cpu::AdamWStep(factors, grad, parameter, m, v); },
      [&] { cuda::AdamWStep(factors, grad, parameter, m, v); });
}

absl::StatusOr<double> SumOfSquares(const Tensor& x) {
  CheckFp32(x, x.shape());
  double sum = 0;
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "sum_of_squares", [&] { sum = ref::SumOfSquares(x); },
      [&] { sum = cpu::SumOfSquares(x); }, [&] { sum = cuda::SumOfSquares(x); }));
  return sum;
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

#include "core/ops/diffusion/mse_loss.h"

#include <vector>

#include "core/ops/diffusion/mse_loss_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {
namespace {

void CheckArguments(const Tensor& prediction, const Tensor& target, const Tensor& weights) {
  CheckFloat(prediction);
  CheckFloat(target);
  DPIPE_CHECK_EQ(prediction.shape(), target.shape());
  if (weights.defined()) CheckFp32(weights, {prediction.dim(0)});
}

// weights[b] / (elements of a sample).
std::vector<double> MeanFactors(const Tensor& prediction, const Tensor& weights) {
  const int64_t batch = prediction.dim(0);
  const int64_t sample = prediction.num_elements() / batch;
  std::vector<double> factors(batch, 1.0 / sample);
  if (!weights.defined()) return factors;
  for (int64_t b = 0; b < batch; ++b) factors[b] *= weights.data<float>()[b];
  return factors;
}

}  // namespace

absl::StatusOr<Tensor> MseLossForward(const Tensor& prediction, const Tensor& target,
                                      const Tensor& weights) {
  CheckArguments(prediction, target, weights);
  const auto& device = prediction.device();
  Tensor loss = Tensor::Empty(device, {prediction.dim(0)}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(RunOn(
      *device, "mse_loss",
      [&] { ref::SquaredError(prediction, target, MeanFactors(prediction, weights), &loss); },
      [&] { cpu::SquaredError(prediction, target, MeanFactors(prediction, weights), &loss); },
      [&] { cuda::MseLossForward(prediction, target, weights, &loss); }));
  return loss;
}

absl::StatusOr<Tensor> MseLossInputGrad(const Tensor& prediction, const Tensor& target,
                                        const Tensor& weights, const Tensor& d_loss) {
  CheckArguments(prediction, target, weights);
  const auto& device = prediction.device();
  CheckFp32(d_loss, {prediction.dim(0)});
  Tensor dp = Tensor::Empty(device, prediction.shape(), prediction.dtype());
  const auto factors = [&] {
    std::vector<double> result = MeanFactors(prediction, weights);
    for (size_t b = 0; b < result.size(); ++b) result[b] *= 2.0 * d_loss.data<float>()[b];
    return result;
  };
  DPIPE_RETURN_IF_ERROR(RunOn(
      *device, "mse_loss", [&] { ref::ScaledError(prediction, target, factors(), &dp); },
      [&] { cpu::ScaledError(prediction, target, factors(), &dp); },
      [&] { cuda::MseLossInputGrad(prediction, target, weights, d_loss, &dp); }));
  return dp;
}

}  // namespace dpipe::ops

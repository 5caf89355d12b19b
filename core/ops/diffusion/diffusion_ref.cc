#include "core/ops/diffusion/diffusion_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {

void CombineSamples(absl::Span<const float> x_weights, const Tensor& x,
                    absl::Span<const float> y_weights, const Tensor& y, Tensor* z) {
  const int64_t sample = x.num_elements() / x.dim(0);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    Put(*z, i, x_weights[i / sample] * Get(x, i) + y_weights[i / sample] * Get(y, i));
  }
}

// loss[b] = factors[b] * sum of squares of the differences.
void SquaredError(const Tensor& prediction, const Tensor& target,
                  const std::vector<double>& factors, Tensor* loss) {
  const int64_t sample = prediction.num_elements() / prediction.dim(0);
  for (int64_t b = 0; b < prediction.dim(0); ++b) {
    double sum = 0;
    for (int64_t i = b * sample; i < (b + 1) * sample; ++i) {
      const double d = Get(prediction, i) - Get(target, i);
      sum += d * d;
    }
    Put(*loss, b, factors[b] * sum);
  }
}

// dp = factors[b] * difference.
void ScaledError(const Tensor& prediction, const Tensor& target, const std::vector<double>& factors,
                 Tensor* dp) {
  const int64_t sample = prediction.num_elements() / prediction.dim(0);
  for (int64_t i = 0; i < prediction.num_elements(); ++i) {
    Put(*dp, i, factors[i / sample] * (Get(prediction, i) - Get(target, i)));
  }
}

void CombineSamples(const Tensor& x_weights, const Tensor& x, const Tensor& y_weights,
                    const Tensor& y, Tensor* z) {
  CombineSamples(x_weights.span<float>(), x, y_weights.span<float>(), y, z);
}

void MseLossForward(const Tensor& prediction, const Tensor& target, const Tensor& weights,
                    Tensor* loss) {
  SquaredError(prediction, target, MseFactors(prediction, weights), loss);
}

void MseLossInputGrad(const Tensor& prediction, const Tensor& target, const Tensor& weights,
                      const Tensor& d_loss, Tensor* dp) {
  ScaledError(prediction, target, MseGradFactors(prediction, weights, d_loss), dp);
}

}  // namespace dpipe::ops::ref

namespace dpipe::ops {

const DiffusionKernels DiffusionKernels::kReference = {ref::CombineSamples, ref::CombineSamples,
                                                       ref::MseLossForward, ref::MseLossInputGrad};

}  // namespace dpipe::ops

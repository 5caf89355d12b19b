#include "core/ops/diffusion/mse_loss_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {

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

void ScaledError(const Tensor& prediction, const Tensor& target, const std::vector<double>& factors,
                 Tensor* dp) {
  const int64_t sample = prediction.num_elements() / prediction.dim(0);
  for (int64_t i = 0; i < prediction.num_elements(); ++i) {
    Put(*dp, i, factors[i / sample] * (Get(prediction, i) - Get(target, i)));
  }
}

}  // namespace dpipe::ops::ref

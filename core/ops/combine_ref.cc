#include "core/ops/combine_kernels.h"
#include "core/ops/reference.h"

namespace dpipe::ops::ref {

void CombineSamples(absl::Span<const float> x_weights, const Tensor& x,
                    absl::Span<const float> y_weights, const Tensor& y, Tensor* z) {
  const int64_t sample = x.num_elements() / x.dim(0);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    Put(*z, i, x_weights[i / sample] * Get(x, i) + y_weights[i / sample] * Get(y, i));
  }
}

}  // namespace dpipe::ops::ref

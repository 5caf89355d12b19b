#include <cmath>

#include "core/ops/diffusion/combine_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {

void CombineSamples(absl::Span<const float> x_weights, const Tensor& x,
                    absl::Span<const float> y_weights, const Tensor& y, Tensor* z) {
  const int64_t sample = x.num_elements() / x.dim(0);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    Put(*z, i, x_weights[i / sample] * Get(x, i) + y_weights[i / sample] * Get(y, i));
  }
}

void LookUp(absl::Span<const float> table, const Tensor& index, Tensor* y) {
  for (int64_t b = 0; b < index.dim(0); ++b) {
    const int32_t i = index.data<int32_t>()[b];
    y->data<float>()[b] = 0 <= i && i < static_cast<int64_t>(table.size()) ? table[i] : NAN;
  }
}

}  // namespace dpipe::ops::ref

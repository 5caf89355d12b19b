#include "core/ops/elementwise/multiply_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {

void Multiply(const Tensor& a, const Tensor& b, Tensor* y) {
  for (int64_t i = 0; i < a.num_elements(); ++i) Put(*y, i, Get(a, i) * Get(b, i));
}

}  // namespace dpipe::ops::ref

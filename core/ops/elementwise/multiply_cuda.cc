#include "core/ops/cuda/kernels/elementwise.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/elementwise/multiply_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops::cuda {

void Multiply(const Tensor& a, const Tensor& b, Tensor* y) {
  WithElements([&](const auto* pa, const auto* pb,
                   auto* to) { MapMultiply(StreamOf(a), a.num_elements(), pa, pb, to); },
               a, b, *y);
}

}  // namespace dpipe::ops::cuda

#include "core/ops/cuda/kernels/elementwise.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/elementwise/geglu_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops::cuda {

void GegluForward(const Tensor& x, Tensor* y) {
  const int64_t width = y->dim(-1), rows = y->num_elements() / width;
  WithElements([&](const auto* from, auto* to) { MapGeglu(StreamOf(x), rows, width, from, to); }, x,
               *y);
}

void GegluInputGrad(const Tensor& x, const Tensor& dy, Tensor* dx) {
  const int64_t width = dy.dim(-1), rows = dy.num_elements() / width;
  WithElements([&](const auto* in, const auto* grad,
                   auto* to) { MapGegluGrad(StreamOf(x), rows, width, in, grad, to); },
               x, dy, *dx);
}

}  // namespace dpipe::ops::cuda

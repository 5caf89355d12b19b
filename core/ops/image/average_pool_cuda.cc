#include "core/ops/cuda/kernels/images.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/image/average_pool_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops::cuda {

void AveragePool2xForward(const Tensor& x, Tensor* y) {
  WithElements([&](const auto* from,
                   auto* to) { SumSquares(StreamOf(x), ImageShapeOf(*y), 0.25f, from, to); },
               x, *y);
}

void AveragePool2xInputGrad(const Tensor& dy, Tensor* dx) {
  WithElements([&](const auto* from,
                   auto* to) { RepeatSquares(StreamOf(dy), ImageShapeOf(dy), 0.25f, from, to); },
               dy, *dx);
}

}  // namespace dpipe::ops::cuda

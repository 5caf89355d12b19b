#include "core/ops/cuda/kernels/images.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/image/upsample_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops::cuda {

void UpsampleNearest2xForward(const Tensor& x, Tensor* y) {
  WithElements([&](const auto* from,
                   auto* to) { RepeatSquares(StreamOf(x), ImageShapeOf(x), 1.0f, from, to); },
               x, *y);
}

void UpsampleNearest2xInputGrad(const Tensor& dy, Tensor* dx) {
  WithElements([&](const auto* from,
                   auto* to) { SumSquares(StreamOf(dy), ImageShapeOf(*dx), 1.0f, from, to); },
               dy, *dx);
}

}  // namespace dpipe::ops::cuda

#include "core/ops/cuda/kernels/images.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/image/resize_bilinear_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops::cuda {

void ResizeBilinearForward(const Tensor& x, Tensor* y) {
  WithElements(
      [&](const auto* from, auto* to) {
        ResizeImage(StreamOf(x), ImageShapeOf(x), ImageShapeOf(*y), from, to);
      },
      x, *y);
}

void ResizeBilinearInputGrad(const Tensor& dy, Tensor* dx) {
  WithElements(
      [&](const auto* from, auto* to) {
        ResizeImageGrad(StreamOf(dy), ImageShapeOf(*dx), ImageShapeOf(dy), from, to);
      },
      dy, *dx);
}

}  // namespace dpipe::ops::cuda

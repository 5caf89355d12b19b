#include "core/ops/cuda/kernels/images.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/image/resize_kernels.h"
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

namespace dpipe::ops {

const ResizeKernels ResizeKernels::kCuda = {
    cuda::UpsampleNearest2xForward, cuda::UpsampleNearest2xInputGrad,
    cuda::AveragePool2xForward,     cuda::AveragePool2xInputGrad,
    cuda::ResizeBilinearForward,    cuda::ResizeBilinearInputGrad};

}  // namespace dpipe::ops

#include "core/ops/image/resize.h"

#include "core/ops/image/resize_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {

absl::StatusOr<Tensor> UpsampleNearest2xForward(const Tensor& x) {
  CheckFloat(x);
  DPIPE_CHECK_EQ(x.shape().rank(), 4);
  Tensor y = Tensor::Empty(x.device(), {x.dim(0), 2 * x.dim(1), 2 * x.dim(2), x.dim(3)}, x.dtype());
  DPIPE_RETURN_IF_ERROR(
      RunKernel(*x.device(), "upsample", &ResizeKernels::upsample_nearest2x_forward, x, &y));
  return y;
}

absl::StatusOr<Tensor> UpsampleNearest2xInputGrad(const Tensor& dy) {
  CheckFloat(dy);
  DPIPE_CHECK_EQ(dy.shape().rank(), 4);
  DPIPE_CHECK(dy.dim(1) % 2 == 0 && dy.dim(2) % 2 == 0) << "odd size of " << dy.shape();
  Tensor dx =
      Tensor::Empty(dy.device(), {dy.dim(0), dy.dim(1) / 2, dy.dim(2) / 2, dy.dim(3)}, dy.dtype());
  DPIPE_RETURN_IF_ERROR(RunKernel(*dy.device(), "upsample's input gradient",
                                  &ResizeKernels::upsample_nearest2x_input_grad, dy, &dx));
  return dx;
}

absl::StatusOr<Tensor> AveragePool2xForward(const Tensor& x) {
  CheckFloat(x);
  DPIPE_CHECK_EQ(x.shape().rank(), 4);
  DPIPE_CHECK(x.dim(1) % 2 == 0 && x.dim(2) % 2 == 0) << "odd size of " << x.shape();
  Tensor y = Tensor::Empty(x.device(), {x.dim(0), x.dim(1) / 2, x.dim(2) / 2, x.dim(3)}, x.dtype());
  DPIPE_RETURN_IF_ERROR(
      RunKernel(*x.device(), "average_pool", &ResizeKernels::average_pool2x_forward, x, &y));
  return y;
}

absl::StatusOr<Tensor> AveragePool2xInputGrad(const Tensor& dy) {
  CheckFloat(dy);
  DPIPE_CHECK_EQ(dy.shape().rank(), 4);
  Tensor dx =
      Tensor::Empty(dy.device(), {dy.dim(0), 2 * dy.dim(1), 2 * dy.dim(2), dy.dim(3)}, dy.dtype());
  DPIPE_RETURN_IF_ERROR(
      RunKernel(*dy.device(), "average_pool", &ResizeKernels::average_pool2x_input_grad, dy, &dx));
  return dx;
}

namespace {

Tensor Sized(const Tensor& x, int64_t height, int64_t width) {
  CheckFloat(x);
  DPIPE_CHECK_EQ(x.shape().rank(), 4);
  DPIPE_CHECK(height > 0 && width > 0) << height << " x " << width;
  return Tensor::Empty(x.device(), {x.dim(0), height, width, x.dim(3)}, x.dtype());
}

}  // namespace

absl::StatusOr<Tensor> ResizeBilinearForward(const Tensor& x, int64_t height, int64_t width) {
  Tensor y = Sized(x, height, width);
  DPIPE_RETURN_IF_ERROR(
      RunKernel(*x.device(), "resize_bilinear", &ResizeKernels::resize_bilinear_forward, x, &y));
  return y;
}

absl::StatusOr<Tensor> ResizeBilinearInputGrad(const Tensor& dy, int64_t height, int64_t width) {
  Tensor dx = Sized(dy, height, width);
  DPIPE_RETURN_IF_ERROR(RunKernel(*dy.device(), "resize_bilinear",
                                  &ResizeKernels::resize_bilinear_input_grad, dy, &dx));
  return dx;
}

}  // namespace dpipe::ops

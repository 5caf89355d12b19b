#include "core/ops/image/resize_bilinear.h"

#include "core/ops/image/resize_bilinear_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {
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
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "resize_bilinear", [&] { ref::ResizeBilinearForward(x, &y); },
      [&] { cpu::ResizeBilinearForward(x, &y); }, [&] { cuda::ResizeBilinearForward(x, &y); }));
  return y;
}

absl::StatusOr<Tensor> ResizeBilinearInputGrad(const Tensor& dy, int64_t height, int64_t width) {
  Tensor dx = Sized(dy, height, width);
  DPIPE_RETURN_IF_ERROR(RunOn(
      *dy.device(), "resize_bilinear", [&] { ref::ResizeBilinearInputGrad(dy, &dx); },
      [&] { cpu::ResizeBilinearInputGrad(dy, &dx); },
      [&] { cuda::ResizeBilinearInputGrad(dy, &dx); }));
  return dx;
}

}  // namespace dpipe::ops

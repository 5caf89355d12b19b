#include "core/ops/image/upsample.h"

#include "core/ops/image/upsample_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {

absl::StatusOr<Tensor> UpsampleNearest2xForward(const Tensor& x) {
  CheckFloat(x);
  DPIPE_CHECK_EQ(x.shape().rank(), 4);
  Tensor y = Tensor::Empty(x.device(), {x.dim(0), 2 * x.dim(1), 2 * x.dim(2), x.dim(3)}, x.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "upsample", [&] { ref::UpsampleNearest2xForward(x, &y); },
      [&] { cpu::UpsampleNearest2xForward(x, &y); },
      [&] { cuda::UpsampleNearest2xForward(x, &y); }));
  return y;
}

absl::StatusOr<Tensor> UpsampleNearest2xInputGrad(const Tensor& dy) {
  CheckFloat(dy);
  DPIPE_CHECK_EQ(dy.shape().rank(), 4);
  DPIPE_CHECK(dy.dim(1) % 2 == 0 && dy.dim(2) % 2 == 0) << "odd size of " << dy.shape();
  Tensor dx =
      Tensor::Empty(dy.device(), {dy.dim(0), dy.dim(1) / 2, dy.dim(2) / 2, dy.dim(3)}, dy.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *dy.device(), "upsample's input gradient", [&] { ref::UpsampleNearest2xInputGrad(dy, &dx); },
      [&] { cpu::UpsampleNearest2xInputGrad(dy, &dx); },
      [&] { cuda::UpsampleNearest2xInputGrad(dy, &dx); }));
  return dx;
}

}  // namespace dpipe::ops

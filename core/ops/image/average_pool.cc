#include "core/ops/image/average_pool.h"

#include "core/ops/image/average_pool_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {

absl::StatusOr<Tensor> AveragePool2xForward(const Tensor& x) {
  CheckFloat(x);
  DPIPE_CHECK_EQ(x.shape().rank(), 4);
  DPIPE_CHECK(x.dim(1) % 2 == 0 && x.dim(2) % 2 == 0) << "odd size of " << x.shape();
  Tensor y = Tensor::Empty(x.device(), {x.dim(0), x.dim(1) / 2, x.dim(2) / 2, x.dim(3)}, x.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "average_pool", [&] { ref::AveragePool2xForward(x, &y); },
      [&] { cpu::AveragePool2xForward(x, &y); }, [&] { cuda::AveragePool2xForward(x, &y); }));
  return y;
}

absl::StatusOr<Tensor> AveragePool2xInputGrad(const Tensor& dy) {
  CheckFloat(dy);
  DPIPE_CHECK_EQ(dy.shape().rank(), 4);
  Tensor dx =
      Tensor::Empty(dy.device(), {dy.dim(0), 2 * dy.dim(1), 2 * dy.dim(2), dy.dim(3)}, dy.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *dy.device(), "average_pool", [&] { ref::AveragePool2xInputGrad(dy, &dx); },
      [&] { cpu::AveragePool2xInputGrad(dy, &dx); },
      [&] { cuda::AveragePool2xInputGrad(dy, &dx); }));
  return dx;
}

}  // namespace dpipe::ops

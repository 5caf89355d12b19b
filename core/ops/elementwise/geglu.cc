#include "core/ops/elementwise/geglu.h"

#include "core/ops/elementwise/geglu_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {
namespace {

Shape OutputShape(const Shape& x) {
  DPIPE_CHECK(x[-1] % 2 == 0) << "geglu of " << x << ": the last dimension must be even";
  Shape y = x;
  y.Set(-1, x[-1] / 2);
  return y;
}

}  // namespace

absl::StatusOr<Tensor> GegluForward(const Tensor& x) {
  CheckFloat(x);
  Tensor y = Tensor::Empty(x.device(), OutputShape(x.shape()), x.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "geglu", [&] { ref::GegluForward(x, &y); }, [&] { cpu::GegluForward(x, &y); },
      [&] { cuda::GegluForward(x, &y); }));
  return y;
}

absl::StatusOr<Tensor> GegluInputGrad(const Tensor& x, const Tensor& dy) {
  CheckFloat(x);
  CheckSameType(x, dy);
  DPIPE_CHECK_EQ(dy.shape(), OutputShape(x.shape()));
  Tensor dx = Tensor::Empty(x.device(), x.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "geglu's input gradient", [&] { ref::GegluInputGrad(x, dy, &dx); },
      [&] { cpu::GegluInputGrad(x, dy, &dx); }, [&] { cuda::GegluInputGrad(x, dy, &dx); }));
  return dx;
}

}  // namespace dpipe::ops

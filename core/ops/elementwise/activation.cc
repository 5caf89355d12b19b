#include "core/ops/elementwise/activation.h"

#include "core/ops/elementwise/activation_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {

absl::StatusOr<Tensor> ActivationForward(Activation activation, const Tensor& x) {
  CheckFloat(x);
  Tensor y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "activation", [&] { ref::ActivationForward(activation, x, &y); },
      [&] { cpu::ActivationForward(activation, x, &y); },
      [&] { cuda::ActivationForward(activation, x, &y); }));
  return y;
}

absl::StatusOr<Tensor> ActivationInputGrad(Activation activation, const Tensor& x,
                                           const Tensor& dy) {
  CheckFloat(x);
  CheckAlike(x, dy);
  Tensor dx = Tensor::Empty(x.device(), x.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "activation's input gradient",
      [&] { ref::ActivationInputGrad(activation, x, dy, &dx); },
      [&] { cpu::ActivationInputGrad(activation, x, dy, &dx); },
      [&] { cuda::ActivationInputGrad(activation, x, dy, &dx); }));
  return dx;
}

}  // namespace dpipe::ops

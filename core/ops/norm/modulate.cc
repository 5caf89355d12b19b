#include "core/ops/norm/modulate.h"

#include "core/ops/norm/modulate_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {
namespace {

void CheckVector(const Tensor& x, const Tensor& v) {
  CheckFloat(x);
  CheckSameType(x, v);
  DPIPE_CHECK_EQ(v.shape(), (Shape{x.dim(0), 2 * x.dim(-1)}));
}

}  // namespace

absl::StatusOr<Tensor> ModulateForward(bool silu, const Tensor& x, const Tensor& v) {
  CheckVector(x, v);
  Tensor y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "modulate", [&] { ref::ModulateForward(silu, x, v, &y); },
      [&] { cpu::ModulateForward(silu, x, v, &y); },
      [&] { cuda::ModulateForward(silu, x, v, &y); }));
  return y;
}

absl::StatusOr<ModulateGrads> ModulateInputGrad(bool silu, const Tensor& x, const Tensor& v,
                                                const Tensor& dy) {
  CheckVector(x, v);
  CheckAlike(x, dy);
  ModulateGrads grads;
  grads.dx = Tensor::Empty(x.device(), x.shape(), x.dtype());
  grads.dv = Tensor::Empty(x.device(), v.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "modulate's input gradient",
      [&] { ref::ModulateInputGrad(silu, x, v, dy, &grads.dx, &grads.dv); },
      [&] { cpu::ModulateInputGrad(silu, x, v, dy, &grads.dx, &grads.dv); },
      [&] { cuda::ModulateInputGrad(silu, x, v, dy, &grads.dx, &grads.dv); }));
  return grads;
}

}  // namespace dpipe::ops

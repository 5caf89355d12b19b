#include "core/ops/elementwise/gated_add.h"

#include "core/ops/elementwise/gated_add_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {
namespace {

void CheckGate(const Tensor& gate, const Tensor& h) {
  CheckFloat(h);
  CheckSameType(gate, h);
  DPIPE_CHECK_EQ(gate.shape(), (Shape{h.dim(0), h.dim(-1)})) << " gates " << h.shape();
}

}  // namespace

absl::StatusOr<Tensor> GatedAddForward(const Tensor& x, const Tensor& gate, const Tensor& h) {
  CheckGate(gate, h);
  CheckAlike(x, h);
  Tensor y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "gated_add", [&] { ref::GatedAddForward(x, gate, h, &y); },
      [&] { cpu::GatedAddForward(x, gate, h, &y); },
      [&] { cuda::GatedAddForward(x, gate, h, &y); }));
  return y;
}

absl::StatusOr<GatedAddGrads> GatedAddInputGrad(const Tensor& gate, const Tensor& h,
                                                const Tensor& dy) {
  CheckGate(gate, h);
  CheckAlike(dy, h);
  GatedAddGrads grads;
  grads.dgate = Tensor::Empty(h.device(), gate.shape(), h.dtype());
  grads.dh = Tensor::Empty(h.device(), h.shape(), h.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *h.device(), "gated_add's input gradient",
      [&] { ref::GatedAddInputGrad(gate, h, dy, &grads); },
      [&] { cpu::GatedAddInputGrad(gate, h, dy, &grads); },
      [&] { cuda::GatedAddInputGrad(gate, h, dy, &grads); }));
  return grads;
}

}  // namespace dpipe::ops

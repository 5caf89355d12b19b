#include "core/ops/elementwise/elementwise.h"

#include "core/ops/elementwise/elementwise_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {

absl::StatusOr<Tensor> ActivationForward(Activation activation, const Tensor& x) {
  CheckFloat(x);
  Tensor y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(RunKernel(*x.device(), "activation",
                                  &ElementwiseKernels::activation_forward, activation, x, &y));
  return y;
}

absl::StatusOr<Tensor> ActivationInputGrad(Activation activation, const Tensor& x,
                                           const Tensor& dy) {
  CheckFloat(x);
  CheckSameShapeAndType(x, dy);
  Tensor dx = Tensor::Empty(x.device(), x.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(RunKernel(*x.device(), "activation's input gradient",
                                  &ElementwiseKernels::activation_input_grad, activation, x, dy,
                                  &dx));
  return dx;
}

namespace {

Shape GegluShape(const Shape& x) {
  DPIPE_CHECK(x[-1] % 2 == 0) << "geglu of " << x << ": the last dimension must be even";
  Shape y = x;
  y.Set(-1, x[-1] / 2);
  return y;
}

}  // namespace

absl::StatusOr<Tensor> GegluForward(const Tensor& x) {
  CheckFloat(x);
  Tensor y = Tensor::Empty(x.device(), GegluShape(x.shape()), x.dtype());
  DPIPE_RETURN_IF_ERROR(RunKernel(*x.device(), "geglu", &ElementwiseKernels::geglu_forward, x, &y));
  return y;
}

absl::StatusOr<Tensor> GegluInputGrad(const Tensor& x, const Tensor& dy) {
  CheckFloat(x);
  CheckSameType(x, dy);
  DPIPE_CHECK_EQ(dy.shape(), GegluShape(x.shape()));
  Tensor dx = Tensor::Empty(x.device(), x.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(RunKernel(*x.device(), "geglu's input gradient",
                                  &ElementwiseKernels::geglu_input_grad, x, dy, &dx));
  return dx;
}

absl::StatusOr<Tensor> Add(const Tensor& a, const Tensor& b) {
  CheckFloat(a);
  CheckSameShapeAndType(a, b);
  Tensor y = Tensor::Empty(a.device(), a.shape(), a.dtype());
  DPIPE_RETURN_IF_ERROR(RunKernel(*a.device(), "add", &ElementwiseKernels::add, a, b, &y));
  return y;
}

absl::StatusOr<Tensor> AddChannels(const Tensor& x, const Tensor& v) {
  CheckFloat(x);
  CheckSameType(x, v);
  DPIPE_CHECK_EQ(v.shape(), (Shape{x.dim(0), x.dim(-1)})) << " added to " << x.shape();
  Tensor y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(
      RunKernel(*x.device(), "add_channels", &ElementwiseKernels::add_channels, x, v, &y));
  return y;
}

absl::StatusOr<Tensor> AddChannelsVectorGrad(const Tensor& dy) {
  CheckFloat(dy);
  Tensor dv = Tensor::Empty(dy.device(), {dy.dim(0), dy.dim(-1)}, dy.dtype());
  DPIPE_RETURN_IF_ERROR(RunKernel(*dy.device(), "add_channels's input gradient",
                                  &ElementwiseKernels::add_channels_vector_grad, dy, &dv));
  return dv;
}

absl::StatusOr<Tensor> Scale(float factor, const Tensor& x) {
  CheckFloat(x);
  Tensor y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(RunKernel(*x.device(), "scale", &ElementwiseKernels::scale, factor, x, &y));
  return y;
}

absl::Status Axpy(float factor, const Tensor& x, Tensor* y) {
  CheckFloat(x);
  DPIPE_CHECK_EQ(x.shape(), y->shape());
  if (y->dtype() != DType::kF32) CheckSameType(x, *y);
  return RunKernel(*x.device(), "axpy", &ElementwiseKernels::axpy, factor, x, y);
}

absl::StatusOr<Tensor> Multiply(const Tensor& a, const Tensor& b) {
  CheckFloat(a);
  CheckSameShapeAndType(a, b);
  Tensor y = Tensor::Empty(a.device(), a.shape(), a.dtype());
  DPIPE_RETURN_IF_ERROR(
      RunKernel(*a.device(), "multiply", &ElementwiseKernels::multiply, a, b, &y));
  return y;
}

namespace {

void CheckGate(const Tensor& gate, const Tensor& h) {
  CheckFloat(h);
  CheckSameType(gate, h);
  DPIPE_CHECK_EQ(gate.shape(), (Shape{h.dim(0), h.dim(-1)})) << " gates " << h.shape();
}

}  // namespace

absl::StatusOr<Tensor> GatedAddForward(const Tensor& x, const Tensor& gate, const Tensor& h) {
  CheckGate(gate, h);
  CheckSameShapeAndType(x, h);
  Tensor y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(
      RunKernel(*x.device(), "gated_add", &ElementwiseKernels::gated_add_forward, x, gate, h, &y));
  return y;
}

absl::StatusOr<GatedAddGrads> GatedAddInputGrad(const Tensor& gate, const Tensor& h,
                                                const Tensor& dy) {
  CheckGate(gate, h);
  CheckSameShapeAndType(dy, h);
  GatedAddGrads grads;
  grads.dgate = Tensor::Empty(h.device(), gate.shape(), h.dtype());
  grads.dh = Tensor::Empty(h.device(), h.shape(), h.dtype());
  DPIPE_RETURN_IF_ERROR(RunKernel(*h.device(), "gated_add's input gradient",
                                  &ElementwiseKernels::gated_add_input_grad, gate, h, dy, &grads));
  return grads;
}

void CheckAddend(const Tensor& addend, const Shape& shape, DType dtype) {
  if (!addend.defined()) return;
  DPIPE_CHECK_EQ(addend.shape(), shape) << "an addend";
  DPIPE_CHECK(addend.dtype() == dtype)
      << DTypeName(addend.dtype()) << " added to " << DTypeName(dtype);
}

absl::StatusOr<Tensor> WithAddend(absl::StatusOr<Tensor> y, const Tensor& addend) {
  if (!y.ok() || !addend.defined()) return y;
  if (addend.shape() != y->shape()) return AddChannels(*y, addend);
  DPIPE_RETURN_IF_ERROR(Axpy(1, addend, &*y));
  return y;
}

}  // namespace dpipe::ops

#include "core/ops/product/linear.h"

#include "core/ops/elementwise/elementwise.h"
#include "core/ops/product/linear_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {
namespace {

// Accepts [out, in], or [out, in, 1, 1]: a 1x1 convolution's weight.
void CheckWeight(const Shape& w) {
  DPIPE_CHECK(w.rank() == 2 || (w.rank() == 4 && w[2] == 1 && w[3] == 1))
      << "weight of a linear layer: " << w;
}

// Returns the shape of a product with the weight or its transpose.
Shape WithWidth(Shape shape, int64_t width) {
  shape.Set(-1, width);
  return shape;
}

}  // namespace

absl::StatusOr<Tensor> LinearForward(const Tensor& x, const Weight& w, const Tensor& bias,
                                     const Tensor& addend) {
  CheckFloat(x);
  CheckWeight(w.shape());
  DPIPE_CHECK_EQ(x.dim(-1), w.shape()[1]) << "x " << x.shape() << ", weight " << w.shape();
  if (bias.defined()) CheckFp32(bias, {w.shape()[0]});
  CheckAddend(addend, WithWidth(x.shape(), w.shape()[0]), x.dtype());
  absl::StatusOr<Tensor> y;
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "linear", [&] { y = ref::LinearForward(x, w, bias, addend); },
      [&] { y = WithAddend(cpu::LinearForward(x, *DecodedWeight(w), bias), addend); },
      [&] { y = cuda::LinearForward(x, w, bias, addend); }));
  return y;
}

absl::StatusOr<Tensor> LinearInputGrad(const Tensor& dy, const Weight& w, const Tensor& addend) {
  CheckFloat(dy);
  CheckWeight(w.shape());
  DPIPE_CHECK_EQ(dy.dim(-1), w.shape()[0]) << "dy " << dy.shape() << ", weight " << w.shape();
  CheckAddend(addend, WithWidth(dy.shape(), w.shape()[1]), dy.dtype());
  absl::StatusOr<Tensor> dx;
  DPIPE_RETURN_IF_ERROR(RunOn(
      *dy.device(), "linear's input gradient", [&] { dx = ref::LinearInputGrad(dy, w, addend); },
      [&] { dx = WithAddend(cpu::LinearInputGrad(dy, *DecodedWeight(w)), addend); },
      [&] { dx = cuda::LinearInputGrad(dy, w, addend); }));
  return dx;
}

absl::Status LinearWeightGrad(const Tensor& x, const Tensor& dy, Tensor* dw, Tensor* db) {
  CheckFloat(x);
  CheckSameType(x, dy);
  CheckWeight(dw->shape());
  CheckFp32(*dw, dw->shape());
  DPIPE_CHECK_EQ(x.dim(-1), dw->dim(1)) << "x " << x.shape() << ", dw " << dw->shape();
  DPIPE_CHECK_EQ(dy.dim(-1), dw->dim(0)) << "dy " << dy.shape() << ", dw " << dw->shape();
  DPIPE_CHECK_EQ(x.num_elements() / x.dim(-1), dy.num_elements() / dy.dim(-1))
      << "rows of x " << x.shape() << " and dy " << dy.shape();
  if (db != nullptr) CheckFp32(*db, {dw->dim(0)});
  absl::Status status;
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "linear's weight gradient", [&] { ref::LinearWeightGrad(x, dy, dw, db); },
      [&] { status = cpu::LinearWeightGrad(x, dy, dw, db); },
      [&] { status = cuda::LinearWeightGrad(x, dy, dw, db); }));
  return status;
}

}  // namespace dpipe::ops

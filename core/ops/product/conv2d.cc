#include "core/ops/product/conv2d.h"

#include "core/ops/elementwise/elementwise.h"
#include "core/ops/product/conv2d_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {

Conv2dParams Conv2dSymmetric(int stride, int padding) {
  return {stride, padding, padding, padding, padding};
}

Shape Conv2dOutputShape(const Conv2dParams& params, const Shape& x, const Shape& w) {
  DPIPE_CHECK_EQ(x.rank(), 4) << "image " << x;
  DPIPE_CHECK_EQ(w.rank(), 4) << "weight " << w;
  DPIPE_CHECK_EQ(x[3], w[1]) << "channels of image " << x << " and weight " << w;
  DPIPE_CHECK_GE(params.stride, 1);
  const int64_t height = x[1] + params.pad_top + params.pad_bottom - w[2];
  const int64_t width = x[2] + params.pad_left + params.pad_right - w[3];
  DPIPE_CHECK(height >= 0 && width >= 0) << "kernel " << w << " is larger than image " << x;
  return {x[0], height / params.stride + 1, width / params.stride + 1, w[0]};
}

absl::StatusOr<Tensor> Conv2dForward(const Conv2dParams& params, const Tensor& x, const Weight& w,
                                     const Tensor& bias, const Tensor& addend) {
  CheckFloat(x);
  const Shape shape = Conv2dOutputShape(params, x.shape(), w.shape());
  if (bias.defined()) CheckFp32(bias, {w.shape()[0]});
  const bool of_sample = addend.defined() && addend.shape().rank() == 2;
  CheckAddend(addend, of_sample ? Shape{shape[0], shape[3]} : shape, x.dtype());
  absl::StatusOr<Tensor> y;
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "conv2d", [&] { y = ref::Conv2dForward(params, x, w, bias, addend); },
      [&] { y = WithAddend(cpu::Conv2dForward(params, x, *DecodedWeight(w), bias), addend); },
      [&] { y = cuda::Conv2dForward(params, x, w, bias, addend); }));
  return y;
}

absl::StatusOr<Tensor> Conv2dInputGrad(const Conv2dParams& params, const Tensor& dy,
                                       const Weight& w, const Shape& x_shape) {
  CheckFloat(dy);
  DPIPE_CHECK_EQ(dy.shape(), Conv2dOutputShape(params, x_shape, w.shape()));
  absl::StatusOr<Tensor> dx;
  DPIPE_RETURN_IF_ERROR(RunOn(
      *dy.device(), "conv2d's input gradient",
      [&] { dx = ref::Conv2dInputGrad(params, dy, w, x_shape); },
      [&] { dx = cpu::Conv2dInputGrad(params, dy, *DecodedWeight(w), x_shape); },
      [&] { dx = cuda::Conv2dInputGrad(params, dy, w, x_shape); }));
  return dx;
}

absl::Status Conv2dWeightGrad(const Conv2dParams& params, const Tensor& x, const Tensor& dy,
                              Tensor* dw, Tensor* db) {
  CheckFloat(x);
  CheckSameType(x, dy);
  CheckFp32(*dw, dw->shape());
  DPIPE_CHECK_EQ(dy.shape(), Conv2dOutputShape(params, x.shape(), dw->shape()));
  if (db != nullptr) CheckFp32(*db, {dw->dim(0)});
  absl::Status status;
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "conv2d's weight gradient",
      [&] { ref::Conv2dWeightGrad(params, x, dy, dw, db); },
      [&] { status = cpu::Conv2dWeightGrad(params, x, dy, dw, db); },
      [&] { status = cuda::Conv2dWeightGrad(params, x, dy, dw, db); }));
  return status;
}

}  // namespace dpipe::ops

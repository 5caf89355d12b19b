#include "core/ops/diffusion/combine.h"

#include "core/ops/diffusion/combine_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {

namespace {

void Check(const Tensor& x, const Tensor& y, DType dtype) {
  CheckFloat(x);
  CheckFloat(y);
  DPIPE_CHECK_EQ(x.shape(), y.shape());
  DPIPE_CHECK(IsFloat(dtype)) << "a result of " << DTypeName(dtype);
}

}  // namespace

absl::StatusOr<Tensor> CombineSamples(absl::Span<const float> x_weights, const Tensor& x,
                                      absl::Span<const float> y_weights, const Tensor& y,
                                      DType dtype) {
  Check(x, y, dtype);
  DPIPE_CHECK_EQ(static_cast<int64_t>(x_weights.size()), x.dim(0));
  DPIPE_CHECK_EQ(static_cast<int64_t>(y_weights.size()), x.dim(0));
  Tensor z = Tensor::Empty(x.device(), x.shape(), dtype);
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "combine", [&] { ref::CombineSamples(x_weights, x, y_weights, y, &z); },
      [&] { cpu::CombineSamples(x_weights, x, y_weights, y, &z); },
      [&] { cuda::CombineSamples(x_weights, x, y_weights, y, &z); }));
  return z;
}

absl::StatusOr<Tensor> CombineSamples(const Tensor& x_weights, const Tensor& x,
                                      const Tensor& y_weights, const Tensor& y, DType dtype) {
  Check(x, y, dtype);
  CheckFp32(x_weights, {x.dim(0)});
  CheckFp32(y_weights, {x.dim(0)});
  Tensor z = Tensor::Empty(x.device(), x.shape(), dtype);
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "combine",
      [&] { ref::CombineSamples(x_weights.span<float>(), x, y_weights.span<float>(), y, &z); },
      [&] { cpu::CombineSamples(x_weights.span<float>(), x, y_weights.span<float>(), y, &z); },
      [&] { cuda::CombineSamples(x_weights, x, y_weights, y, &z); }));
  return z;
}

absl::StatusOr<Tensor> LookUp(absl::Span<const float> table, const Tensor& index) {
  DPIPE_CHECK(index.dtype() == DType::kI32) << "indices of " << DTypeName(index.dtype());
  DPIPE_CHECK_EQ(index.shape().rank(), 1);
  Tensor y = Tensor::Empty(index.device(), index.shape(), DType::kF32);
  const auto look_up = [&] { ref::LookUp(table, index, &y); };  // one number per sample
  DPIPE_RETURN_IF_ERROR(
      RunOn(*index.device(), "look_up", look_up, look_up, [&] { cuda::LookUp(table, index, &y); }));
  return y;
}

}  // namespace dpipe::ops

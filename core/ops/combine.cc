#include "core/ops/combine.h"

#include "core/ops/backend.h"
#include "core/ops/combine_kernels.h"

namespace dpipe::ops {

absl::StatusOr<Tensor> CombineSamples(absl::Span<const float> x_weights, const Tensor& x,
                                      absl::Span<const float> y_weights, const Tensor& y,
                                      DType dtype) {
  CheckFloat(x);
  CheckFloat(y);
  DPIPE_CHECK_EQ(x.shape(), y.shape());
  DPIPE_CHECK_EQ(static_cast<int64_t>(x_weights.size()), x.dim(0));
  DPIPE_CHECK_EQ(static_cast<int64_t>(y_weights.size()), x.dim(0));
  DPIPE_CHECK(IsFloat(dtype)) << "a result of " << DTypeName(dtype);
  Tensor z = Tensor::Empty(x.device(), x.shape(), dtype);
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "combine", [&] { ref::CombineSamples(x_weights, x, y_weights, y, &z); },
      [&] { cpu::CombineSamples(x_weights, x, y_weights, y, &z); },
      [&] { cuda::CombineSamples(x_weights, x, y_weights, y, &z); }));
  return z;
}

}  // namespace dpipe::ops

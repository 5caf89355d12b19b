#include "core/ops/norm/rms_norm.h"

#include "core/ops/elementwise/addend.h"
#include "core/ops/norm/rms_norm_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {

absl::StatusOr<RmsNormResult> RmsNormForward(const RmsNormParams& params, const Tensor& x,
                                             const Tensor& scale) {
  CheckFloat(x);
  const int64_t channels = x.dim(-1);
  CheckFp32(scale, {channels});
  RmsNormResult result;
  result.y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  result.rstd = Tensor::Empty(x.device(), {x.num_elements() / channels}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "rms_norm", [&] { ref::RmsNormForward(params, x, scale, &result); },
      [&] { cpu::RmsNormForward(params, x, scale, &result); },
      [&] { cuda::RmsNormForward(params, x, scale, &result); }));
  return result;
}

absl::StatusOr<RmsNormGrads> RmsNormInputGrad(const Tensor& x, const Tensor& dy, const Tensor& rstd,
                                              const Tensor& scale, const Tensor& addend) {
  CheckFloat(x);
  CheckAlike(x, dy);
  const int64_t channels = x.dim(-1);
  CheckFp32(scale, {channels});
  CheckFp32(rstd, {x.num_elements() / channels});
  CheckAddend(addend, x.shape(), x.dtype());
  RmsNormGrads grads;
  grads.dx = Tensor::Empty(x.device(), x.shape(), x.dtype());
  grads.sums = Tensor::Empty(x.device(), {x.dim(0), channels}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "rms_norm's input gradient",
      [&] { ref::RmsNormInputGrad(x, dy, rstd, scale, addend, &grads); },
      [&] { cpu::RmsNormInputGrad(x, dy, rstd, scale, addend, &grads); },
      [&] { cuda::RmsNormInputGrad(x, dy, rstd, scale, addend, &grads); }));
  return grads;
}

absl::Status RmsNormWeightGrad(const Tensor& sums, Tensor* dscale) {
  const int64_t batch = sums.dim(0), channels = sums.dim(1);
  CheckFp32(sums, {batch, channels});
  CheckFp32(*dscale, {channels});
  // A few kilobytes: one loop serves every host device.
  const auto add = [&] {
    for (int64_t b = 0; b < batch; ++b) {
      const float* from = sums.data<float>() + b * channels;
      for (int64_t c = 0; c < channels; ++c) dscale->data<float>()[c] += from[c];
    }
  };
  return RunOn(*sums.device(), "rms_norm's weight gradient", add, add,
               [&] { cuda::RmsNormWeightGrad(sums, dscale); });
}

}  // namespace dpipe::ops

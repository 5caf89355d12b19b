#include "core/ops/norm/layer_norm.h"

#include "core/ops/elementwise/addend.h"
#include "core/ops/norm/layer_norm_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {
namespace {

void CheckVector(const Tensor& x, const Tensor& v) {
  if (v.shape().rank() == 2) {
    CheckFp32(v, {x.dim(0), x.dim(-1)});
  } else {
    CheckFp32(v, {x.dim(-1)});
  }
}

}  // namespace

absl::StatusOr<LayerNormResult> LayerNormForward(const LayerNormParams& params, const Tensor& x,
                                                 const Tensor& scale, const Tensor& bias) {
  CheckFloat(x);
  const int64_t channels = x.dim(-1);
  CheckVector(x, scale);
  CheckFp32(bias, scale.shape());
  LayerNormResult result;
  result.y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  result.stats = Tensor::Empty(x.device(), {x.num_elements() / channels, 2}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "layer_norm", [&] { ref::LayerNormForward(params, x, scale, bias, &result); },
      [&] { cpu::LayerNormForward(params, x, scale, bias, &result); },
      [&] { cuda::LayerNormForward(params, x, scale, bias, &result); }));
  return result;
}

absl::StatusOr<LayerNormGrads> LayerNormInputGrad(const Tensor& x, const Tensor& dy,
                                                  const Tensor& stats, const Tensor& scale,
                                                  const Tensor& addend) {
  CheckFloat(x);
  CheckAlike(x, dy);
  const int64_t channels = x.dim(-1);
  CheckVector(x, scale);
  CheckFp32(stats, {x.num_elements() / channels, 2});
  CheckAddend(addend, x.shape(), x.dtype());
  LayerNormGrads grads;
  grads.dx = Tensor::Empty(x.device(), x.shape(), x.dtype());
  grads.sums = Tensor::Empty(x.device(), {x.dim(0), 2, channels}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "layer_norm's input gradient",
      [&] { ref::LayerNormInputGrad(x, dy, stats, scale, addend, &grads); },
      [&] { cpu::LayerNormInputGrad(x, dy, stats, scale, addend, &grads); },
      [&] { cuda::LayerNormInputGrad(x, dy, stats, scale, addend, &grads); }));
  return grads;
}

absl::Status LayerNormWeightGrad(const Tensor& sums, Tensor* dscale, Tensor* dbias) {
  const int64_t batch = sums.dim(0), channels = sums.dim(2);
  CheckFp32(sums, {batch, 2, channels});
  CheckFp32(*dscale, {channels});
  CheckFp32(*dbias, {channels});
  // A few kilobytes: one loop serves every host device.
  const auto add = [&] {
    for (int64_t b = 0; b < batch; ++b) {
      const float* from = sums.data<float>() + b * 2 * channels;
      for (int64_t c = 0; c < channels; ++c) dbias->data<float>()[c] += from[c];
      for (int64_t c = 0; c < channels; ++c) dscale->data<float>()[c] += from[channels + c];
    }
  };
  return RunOn(*sums.device(), "layer_norm's weight gradient", add, add,
               [&] { cuda::LayerNormWeightGrad(sums, dscale, dbias); });
}

}  // namespace dpipe::ops

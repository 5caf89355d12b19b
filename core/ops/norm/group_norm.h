// Norms over a sample's channels and positions, and modulation of channels.
#ifndef DPIPE_CORE_OPS_NORM_GROUP_NORM_H_
#define DPIPE_CORE_OPS_NORM_GROUP_NORM_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Group normalization (Wu and He, arXiv 1803.08494) over channels-last tensors, alone or followed
// by SiLU, the most frequent pair in the U-Net and the VAE.
//
// A sample's channels are split into `groups` runs of C / groups. Mean and (biased) variance are
// taken over a run's channels and all positions. No value depends on another sample.

struct GroupNormParams {
  int groups = 32;
  float eps = 1e-5f;
  // y = silu(norm(x)) in one pass. All functions below must be given the same value.
  bool silu = false;
};

struct GroupNormResult {
  Tensor y;  // x's shape and dtype
  Tensor
      stats;  // fp32 [B, groups, 2]: mean and 1 / sqrt(variance + eps); kept for the backward pass
};

// x [B, ..., C] in fp32 or bf16, with C a multiple of groups; scale and bias fp32 [C].
absl::StatusOr<GroupNormResult> GroupNormForward(const GroupNormParams& params, const Tensor& x,
                                                 const Tensor& scale, const Tensor& bias);

struct GroupNormGrads {
  Tensor dx;    // x's shape and dtype
  Tensor sums;  // fp32 [B, C, 2]: all that the weight gradient needs, so that x and dy can be freed
};

// `x` and `stats` are the forward pass's. dy has x's shape and dtype. So has `addend`, the
// contribution of other readers of x to its gradient, which is added to dx unless undefined.
absl::StatusOr<GroupNormGrads> GroupNormInputGrad(const GroupNormParams& params, const Tensor& x,
                                                  const Tensor& dy, const Tensor& stats,
                                                  const Tensor& scale, const Tensor& bias,
                                                  const Tensor& addend = Tensor());

// Adds the gradients of scale and bias, fp32 [C], from GroupNormInputGrad's `sums`, in sample
// order.
absl::Status GroupNormWeightGrad(const Tensor& sums, Tensor* dscale, Tensor* dbias);

// Scale and shift of every channel by numbers of the sample, alone or followed by SiLU. U-Net
// blocks with "scale_shift" apply the time embedding this way (Dhariwal and Nichol, arXiv
// 2105.05233, "adaptive group normalization"; diffusers ResnetBlock2D).
//
//   h[b, ..., c] = x[b, ..., c] (1 + v[b, c]) + v[b, C + c];   y = h, or silu(h)

// x [B, ..., C] and v [B, 2C], both fp32 or both bf16 -> x's shape and dtype.
absl::StatusOr<Tensor> ModulateForward(bool silu, const Tensor& x, const Tensor& v);

struct ModulateGrads {
  Tensor dx;  // x's shape and dtype
  Tensor dv;  // v's shape and dtype, summed over positions in fp32
};

// x and v are the forward pass's; dy has x's shape and dtype.
absl::StatusOr<ModulateGrads> ModulateInputGrad(bool silu, const Tensor& x, const Tensor& v,
                                                const Tensor& dy);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_NORM_GROUP_NORM_H_

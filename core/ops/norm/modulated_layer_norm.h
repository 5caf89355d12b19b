// Layer normalization followed by scale and shift by numbers of the sample, in one pass: adaptive
// layer norm (Peebles and Xie, arXiv 2212.09748; diffusers AdaLayerNormZero and
// AdaLayerNormContinuous).
//
//   h = (x - mean) / sqrt(variance + eps) over the last dimension
//   y[b, ..., c] = h[b, ..., c] (1 + scale[b, c]) + shift[b, c]
#ifndef DPIPE_CORE_OPS_NORM_MODULATED_LAYER_NORM_H_
#define DPIPE_CORE_OPS_NORM_MODULATED_LAYER_NORM_H_

#include "core/ops/norm/layer_norm.h"

namespace dpipe::ops {

struct ModulatedLayerNormParams {
  float eps = 1e-6f;
  bool shift_first = true;  // v = [shift | scale]; otherwise [scale | shift]
};

struct ModulatedLayerNormResult {
  Tensor y;             // x's shape and dtype
  Tensor stats, scale;  // fp32; kept for the backward pass
};

// x [B, ..., C] and v [B, 2C], both fp32 or both bf16.
absl::StatusOr<ModulatedLayerNormResult> ModulatedLayerNormForward(
    const ModulatedLayerNormParams& params, const Tensor& x, const Tensor& v);

struct ModulatedLayerNormGrads {
  Tensor dx;  // x's shape and dtype
  Tensor dv;  // [B, 2C] in x's dtype, summed over positions in fp32
};

// `x`, `stats` and `scale` are the forward pass's. dy has x's shape and dtype. So has `addend`,
// which is added to dx unless undefined.
absl::StatusOr<ModulatedLayerNormGrads> ModulatedLayerNormInputGrad(
    const ModulatedLayerNormParams& params, const Tensor& x, const Tensor& dy, const Tensor& stats,
    const Tensor& scale, const Tensor& addend = Tensor());

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_NORM_MODULATED_LAYER_NORM_H_

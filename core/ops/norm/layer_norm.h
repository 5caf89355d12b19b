// Norms over the last dimension: layer norm, RMS norm, adaptive layer norm.
#ifndef DPIPE_CORE_OPS_NORM_LAYER_NORM_H_
#define DPIPE_CORE_OPS_NORM_LAYER_NORM_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Layer normalization (Ba, Kiros and Hinton, arXiv 1607.06450):

struct LayerNormParams {
  float eps = 1e-5f;
};

struct LayerNormResult {
  Tensor y;      // x's shape and dtype
  Tensor stats;  // fp32 [rows, 2]: mean and 1 / sqrt(variance + eps); kept for the backward pass
};

// x [B, ..., C] in fp32 or bf16; scale and bias both fp32 [C], or both fp32 [B, C] with numbers of
// each sample. A row is one run of C elements.
absl::StatusOr<LayerNormResult> LayerNormForward(const LayerNormParams& params, const Tensor& x,
                                                 const Tensor& scale, const Tensor& bias);

struct LayerNormGrads {
  Tensor dx;  // x's shape and dtype
  // fp32 [B, 2, C], B = x.dim(0): the gradients of bias and scale, summed over a sample's rows. All
  // that the weight gradient needs.
  Tensor sums;
};

// `x`, `stats` and `scale` are the forward pass's. dy has x's shape and dtype. So has `addend`, the
// contribution of other readers of x to its gradient, which is added to dx unless undefined.
absl::StatusOr<LayerNormGrads> LayerNormInputGrad(const Tensor& x, const Tensor& dy,
                                                  const Tensor& stats, const Tensor& scale,
                                                  const Tensor& addend = Tensor());

// Adds the gradients of scale and bias, fp32 [C], from LayerNormInputGrad's `sums`, in sample
// order.
absl::Status LayerNormWeightGrad(const Tensor& sums, Tensor* dscale, Tensor* dbias);

// Root mean square normalization (Zhang and Sennrich, arXiv 1910.07467) over the last dimension:
// y = x / sqrt(mean(x^2) + eps) * scale.
//
// A row is one run of C elements. T5 normalizes a token's channels; diffusion transformers
// normalize each attention head's queries and keys, [B, T, heads, C], with one scale for all heads.

struct RmsNormParams {
  float eps = 1e-6f;
};

struct RmsNormResult {
  Tensor y;     // x's shape and dtype
  Tensor rstd;  // fp32 [rows]: 1 / sqrt(mean(x^2) + eps); kept for the backward pass
};

// x [B, ..., C] in fp32 or bf16; scale fp32 [C]. bf16 is rounded once, after the product with the
// scale.
absl::StatusOr<RmsNormResult> RmsNormForward(const RmsNormParams& params, const Tensor& x,
                                             const Tensor& scale);

struct RmsNormGrads {
  Tensor dx;    // x's shape and dtype
  Tensor sums;  // fp32 [B, C], B = x.dim(0): all that the weight gradient needs
};

// `x` and `rstd` are the forward pass's. dy has x's shape and dtype. So has `addend`, the
// contribution of other readers of x to its gradient, which is added to dx unless undefined.
absl::StatusOr<RmsNormGrads> RmsNormInputGrad(const Tensor& x, const Tensor& dy, const Tensor& rstd,
                                              const Tensor& scale, const Tensor& addend = Tensor());

// Adds the gradient of scale, fp32 [C], from RmsNormInputGrad's `sums`, in sample order.
absl::Status RmsNormWeightGrad(const Tensor& sums, Tensor* dscale);

// Layer normalization followed by scale and shift by numbers of the sample, in one pass: adaptive
// layer norm (Peebles and Xie, arXiv 2212.09748; diffusers AdaLayerNormZero and
// AdaLayerNormContinuous).
//
//   h = (x - mean) / sqrt(variance + eps) over the last dimension
//   y[b, ..., c] = h[b, ..., c] (1 + scale[b, c]) + shift[b, c]

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

#endif  // DPIPE_CORE_OPS_NORM_LAYER_NORM_H_

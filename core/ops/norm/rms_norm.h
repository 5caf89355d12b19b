// Root mean square normalization (Zhang and Sennrich, arXiv 1910.07467) over the last dimension:
// y = x / sqrt(mean(x^2) + eps) * scale.
//
// A row is one run of C elements. T5 normalizes a token's channels; diffusion transformers
// normalize each attention head's queries and keys, [B, T, heads, C], with one scale for all heads.
#ifndef DPIPE_CORE_OPS_NORM_RMS_NORM_H_
#define DPIPE_CORE_OPS_NORM_RMS_NORM_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

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

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_NORM_RMS_NORM_H_

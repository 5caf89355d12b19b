// Layer normalization (Ba, Kiros and Hinton, arXiv 1607.06450) over the last dimension.
#ifndef DPIPE_CORE_OPS_NORM_LAYER_NORM_H_
#define DPIPE_CORE_OPS_NORM_LAYER_NORM_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

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

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_NORM_LAYER_NORM_H_

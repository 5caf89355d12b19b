// The implementations behind layer_norm.cc. Outputs have the shapes of layer_norm.h.
#ifndef DPIPE_CORE_OPS_NORM_LAYER_NORM_KERNELS_H_
#define DPIPE_CORE_OPS_NORM_LAYER_NORM_KERNELS_H_

#include "core/ops/norm/layer_norm.h"

namespace dpipe::ops {
namespace ref {
void LayerNormForward(const LayerNormParams& params, const Tensor& x, const Tensor& scale,
                      const Tensor& bias, LayerNormResult* result);
void LayerNormInputGrad(const Tensor& x, const Tensor& dy, const Tensor& stats, const Tensor& scale,
                        const Tensor& addend, LayerNormGrads* grads);
}  // namespace ref
namespace cpu {
void LayerNormForward(const LayerNormParams& params, const Tensor& x, const Tensor& scale,
                      const Tensor& bias, LayerNormResult* result);
void LayerNormInputGrad(const Tensor& x, const Tensor& dy, const Tensor& stats, const Tensor& scale,
                        const Tensor& addend, LayerNormGrads* grads);
}  // namespace cpu
namespace cuda {
void LayerNormForward(const LayerNormParams& params, const Tensor& x, const Tensor& scale,
                      const Tensor& bias, LayerNormResult* result);
void LayerNormInputGrad(const Tensor& x, const Tensor& dy, const Tensor& stats, const Tensor& scale,
                        const Tensor& addend, LayerNormGrads* grads);
void LayerNormWeightGrad(const Tensor& sums, Tensor* dscale, Tensor* dbias);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_NORM_LAYER_NORM_KERNELS_H_

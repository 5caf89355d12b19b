// The implementations behind group_norm.cc. Outputs have the shapes of group_norm.h.
#ifndef DPIPE_CORE_OPS_NORM_GROUP_NORM_KERNELS_H_
#define DPIPE_CORE_OPS_NORM_GROUP_NORM_KERNELS_H_

#include "core/ops/norm/group_norm.h"

namespace dpipe::ops {
namespace ref {
void GroupNormForward(const GroupNormParams& params, const Tensor& x, const Tensor& scale,
                      const Tensor& bias, GroupNormResult* result);
void GroupNormInputGrad(const GroupNormParams& params, const Tensor& x, const Tensor& dy,
                        const Tensor& stats, const Tensor& scale, const Tensor& bias,
                        const Tensor& addend, GroupNormGrads* grads);
}  // namespace ref
namespace cpu {
void GroupNormForward(const GroupNormParams& params, const Tensor& x, const Tensor& scale,
                      const Tensor& bias, GroupNormResult* result);
void GroupNormInputGrad(const GroupNormParams& params, const Tensor& x, const Tensor& dy,
                        const Tensor& stats, const Tensor& scale, const Tensor& bias,
                        const Tensor& addend, GroupNormGrads* grads);
}  // namespace cpu
namespace cuda {
void GroupNormForward(const GroupNormParams& params, const Tensor& x, const Tensor& scale,
                      const Tensor& bias, GroupNormResult* result);
void GroupNormInputGrad(const GroupNormParams& params, const Tensor& x, const Tensor& dy,
                        const Tensor& stats, const Tensor& scale, const Tensor& bias,
                        const Tensor& addend, GroupNormGrads* grads);
void GroupNormWeightGrad(const Tensor& sums, Tensor* dscale, Tensor* dbias);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_NORM_GROUP_NORM_KERNELS_H_

// The implementations behind rms_norm.cc. Outputs have the shapes of rms_norm.h.
#ifndef DPIPE_CORE_OPS_NORM_RMS_NORM_KERNELS_H_
#define DPIPE_CORE_OPS_NORM_RMS_NORM_KERNELS_H_

#include "core/ops/norm/rms_norm.h"

namespace dpipe::ops {
namespace ref {
void RmsNormForward(const RmsNormParams& params, const Tensor& x, const Tensor& scale,
                    RmsNormResult* result);
void RmsNormInputGrad(const Tensor& x, const Tensor& dy, const Tensor& rstd, const Tensor& scale,
                      const Tensor& addend, RmsNormGrads* grads);
}  // namespace ref
namespace cpu {
void RmsNormForward(const RmsNormParams& params, const Tensor& x, const Tensor& scale,
                    RmsNormResult* result);
void RmsNormInputGrad(const Tensor& x, const Tensor& dy, const Tensor& rstd, const Tensor& scale,
                      const Tensor& addend, RmsNormGrads* grads);
}  // namespace cpu
namespace cuda {
void RmsNormForward(const RmsNormParams& params, const Tensor& x, const Tensor& scale,
                    RmsNormResult* result);
void RmsNormInputGrad(const Tensor& x, const Tensor& dy, const Tensor& rstd, const Tensor& scale,
                      const Tensor& addend, RmsNormGrads* grads);
void RmsNormWeightGrad(const Tensor& sums, Tensor* dscale);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_NORM_RMS_NORM_KERNELS_H_

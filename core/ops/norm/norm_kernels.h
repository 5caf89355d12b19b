// The implementations behind group_norm.cc and layer_norm.cc. Outputs have the shapes of their
// headers.
#ifndef DPIPE_CORE_OPS_NORM_NORM_KERNELS_H_
#define DPIPE_CORE_OPS_NORM_NORM_KERNELS_H_

#include "core/ops/norm/group_norm.h"
#include "core/ops/norm/layer_norm.h"

namespace dpipe::ops {

struct GroupNormKernels {
  void (*group_norm_forward)(const GroupNormParams& params, const Tensor& x, const Tensor& scale,
                             const Tensor& bias, GroupNormResult* result);
  void (*group_norm_input_grad)(const GroupNormParams& params, const Tensor& x, const Tensor& dy,
                                const Tensor& stats, const Tensor& scale, const Tensor& bias,
                                const Tensor& addend, GroupNormGrads* grads);
  void (*modulate_forward)(bool silu, const Tensor& x, const Tensor& v, Tensor* y);
  void (*modulate_input_grad)(bool silu, const Tensor& x, const Tensor& v, const Tensor& dy,
                              Tensor* dx, Tensor* dv);

  static const GroupNormKernels kReference, kCpu, kCuda;
};

struct LayerNormKernels {
  void (*layer_norm_forward)(const LayerNormParams& params, const Tensor& x, const Tensor& scale,
                             const Tensor& bias, LayerNormResult* result);
  void (*layer_norm_input_grad)(const Tensor& x, const Tensor& dy, const Tensor& stats,
                                const Tensor& scale, const Tensor& addend, LayerNormGrads* grads);
  void (*rms_norm_forward)(const RmsNormParams& params, const Tensor& x, const Tensor& scale,
                           RmsNormResult* result);
  void (*rms_norm_input_grad)(const Tensor& x, const Tensor& dy, const Tensor& rstd,
                              const Tensor& scale, const Tensor& addend, RmsNormGrads* grads);

  static const LayerNormKernels kReference, kCpu, kCuda;
};

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_NORM_NORM_KERNELS_H_

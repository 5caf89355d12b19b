// AdamW's arithmetic on one number.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_ADAMW_ARITHMETIC_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_ADAMW_ARITHMETIC_H_

#include "core/ops/cuda/kernels/kernel.h"
#include "core/ops/optimizer/adamw_factors.h"

namespace dpipe::ops::cuda {

DPIPE_KERNEL_FUNCTION void UpdateMoments(const AdamWFactors& f, float grad, float* m, float* v) {
  const float g = f.grad_scale * grad;
  *m = *m + f.one_minus_beta1 * (g - *m);
  *v = f.beta2 * *v + f.one_minus_beta2 * (g * g);
}

// Returns the updated parameter from its new moments: m and the root of v.
DPIPE_KERNEL_FUNCTION float Updated(const AdamWFactors& f, float parameter, float m, float root_v) {
  const float denominator = root_v * f.inverse_sqrt_bias2 + f.eps;
  return f.decay * parameter - f.step_size * (m / denominator);
}

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_ADAMW_ARITHMETIC_H_

// The implementations that adamw.cc chooses from. All tensors are fp32 and of one shape.
#ifndef DPIPE_CORE_OPS_ADAMW_KERNELS_H_
#define DPIPE_CORE_OPS_ADAMW_KERNELS_H_

#include "core/tensor/tensor.h"

namespace dpipe::ops {

// AdamWParams with what depends on the step folded in.
struct AdamWFactors {
  float grad_scale;
  float decay;  // 1 - learning_rate * weight_decay
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float step_size;           // learning_rate / (1 - beta1^step)
  float inverse_sqrt_bias2;  // 1 / sqrt(1 - beta2^step)
  float eps;
};

namespace ref {
void AdamWStep(const AdamWFactors& factors, const Tensor& grad, Tensor* parameter, Tensor* m,
               Tensor* v);
double SumOfSquares(const Tensor& x);
void EmaUpdate(float decay, const Tensor& value, Tensor* average);
}  // namespace ref
namespace cpu {
void AdamWStep(const AdamWFactors& factors, const Tensor& grad, Tensor* parameter, Tensor* m,
               Tensor* v);
double SumOfSquares(const Tensor& x);
void EmaUpdate(float decay, const Tensor& value, Tensor* average);
}  // namespace cpu
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ADAMW_KERNELS_H_

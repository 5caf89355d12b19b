// The factors of AdamW's kernels.
#ifndef DPIPE_CORE_OPS_OPTIMIZER_ADAMW_FACTORS_H_
#define DPIPE_CORE_OPS_OPTIMIZER_ADAMW_FACTORS_H_

namespace dpipe::ops {

// AdamWParams combined with all that depends on the step.
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

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_OPTIMIZER_ADAMW_FACTORS_H_

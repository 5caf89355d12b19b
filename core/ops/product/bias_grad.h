// The gradient of a bias: sums over rows.
#ifndef DPIPE_CORE_OPS_PRODUCT_BIAS_GRAD_H_
#define DPIPE_CORE_OPS_PRODUCT_BIAS_GRAD_H_

#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Adds to db: fp32 [C] the sums of dy: [..., C] (fp32 or bf16) over all dimensions except the last.
void AddBiasGrad(const Tensor& dy, Tensor* db);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_PRODUCT_BIAS_GRAD_H_

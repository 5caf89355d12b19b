// Elementwise products, such as those of gated feed-forwards.
#ifndef DPIPE_CORE_OPS_ELEMENTWISE_MULTIPLY_H_
#define DPIPE_CORE_OPS_ELEMENTWISE_MULTIPLY_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Returns a * b, both of one shape and dtype (fp32 or bf16). The gradient of a is Multiply(dy, b),
// that of b Multiply(dy, a).
absl::StatusOr<Tensor> Multiply(const Tensor& a, const Tensor& b);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ELEMENTWISE_MULTIPLY_H_

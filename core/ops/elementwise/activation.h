// Elementwise activations.
#ifndef DPIPE_CORE_OPS_ELEMENTWISE_ACTIVATION_H_
#define DPIPE_CORE_OPS_ELEMENTWISE_ACTIVATION_H_

#include "core/base/status.h"
#include "core/ops/elementwise/activation_kind.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Returns f(x), with x's shape and dtype (fp32 or bf16).
absl::StatusOr<Tensor> ActivationForward(Activation activation, const Tensor& x);

// Returns dx = dy f'(x). `x` is the forward pass's input; dy has its shape and dtype.
absl::StatusOr<Tensor> ActivationInputGrad(Activation activation, const Tensor& x,
                                           const Tensor& dy);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ELEMENTWISE_ACTIVATION_H_

// The gated GELU of transformer feed-forwards (Shazeer, arXiv 2002.05202), with the halves in the
// order of diffusers' GEGLU: value first, gate second.
#ifndef DPIPE_CORE_OPS_ELEMENTWISE_GEGLU_H_
#define DPIPE_CORE_OPS_ELEMENTWISE_GEGLU_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// x [..., 2C] = [value | gate] -> value * gelu(gate) [..., C], with the exact gelu. fp32 or bf16.
absl::StatusOr<Tensor> GegluForward(const Tensor& x);

// dx [..., 2C] from dy [..., C]; `x` is the forward pass's input.
absl::StatusOr<Tensor> GegluInputGrad(const Tensor& x, const Tensor& dy);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ELEMENTWISE_GEGLU_H_

// A residual connection whose branch is multiplied by numbers of the sample, as in adaLN-Zero
// (Peebles and Xie, arXiv 2212.09748).
//
//   y[b, ..., c] = x[b, ..., c] + gate[b, c] h[b, ..., c]
#ifndef DPIPE_CORE_OPS_ELEMENTWISE_GATED_ADD_H_
#define DPIPE_CORE_OPS_ELEMENTWISE_GATED_ADD_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// x and h [B, ..., C] and gate [B, C], all fp32 or all bf16 -> x's shape and dtype.
absl::StatusOr<Tensor> GatedAddForward(const Tensor& x, const Tensor& gate, const Tensor& h);

// The gradient of x is dy.
struct GatedAddGrads {
  Tensor dgate;  // gate's shape and dtype, summed over positions in fp32
  Tensor dh;     // h's shape and dtype
};

// gate and h are the forward pass's; dy has h's shape and dtype.
absl::StatusOr<GatedAddGrads> GatedAddInputGrad(const Tensor& gate, const Tensor& h,
                                                const Tensor& dy);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ELEMENTWISE_GATED_ADD_H_

// Elementwise ops: activations, sums, products, and sums with gates. Tensors are fp32 or bf16.
#ifndef DPIPE_CORE_OPS_ELEMENTWISE_ELEMENTWISE_H_
#define DPIPE_CORE_OPS_ELEMENTWISE_ELEMENTWISE_H_

#include "core/base/status.h"
#include "core/ops/support/curves.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Returns f(x), with x's shape and dtype (fp32 or bf16).
absl::StatusOr<Tensor> ActivationForward(Activation activation, const Tensor& x);

// Returns dx = dy f'(x). `x` is the forward pass's input; dy has its shape and dtype.
absl::StatusOr<Tensor> ActivationInputGrad(Activation activation, const Tensor& x,
                                           const Tensor& dy);

// The gated GELU of transformer feed-forwards (Shazeer, arXiv 2002.05202), with the halves in the
// order of diffusers' GEGLU: value first, gate second.
//
// x [..., 2C] = [value | gate] -> value * gelu(gate) [..., C], with the exact gelu. fp32 or bf16.
absl::StatusOr<Tensor> GegluForward(const Tensor& x);

// dx [..., 2C] from dy [..., C]; `x` is the forward pass's input.
absl::StatusOr<Tensor> GegluInputGrad(const Tensor& x, const Tensor& dy);

// Returns a + b, both of one shape and dtype (fp32 or bf16). The gradient of both is dy.
absl::StatusOr<Tensor> Add(const Tensor& a, const Tensor& b);

// Returns x [B, ..., C] + v [B, C] at every position; one dtype. The gradient of x is dy.
absl::StatusOr<Tensor> AddChannels(const Tensor& x, const Tensor& v);

// Returns the gradient of v: dy [B, ..., C] summed over positions in fp32 -> [B, C] in dy's dtype.
absl::StatusOr<Tensor> AddChannelsVectorGrad(const Tensor& dy);

// Returns factor * x, with x's shape and dtype (fp32 or bf16).
absl::StatusOr<Tensor> Scale(float factor, const Tensor& x);

// Computes y += factor * x in place. One shape; x is fp32 or bf16, y is fp32 or has x's dtype.
absl::Status Axpy(float factor, const Tensor& x, Tensor* y);

// Dies unless the addend is undefined or has the result's shape and element type.
void CheckAddend(const Tensor& addend, const Shape& shape, DType dtype);

// Returns y + addend, in y's memory if possible; y is rounded before. For implementations without
// an addend of their own. The addend is undefined, has y's shape, or has shape [y.dim(0),
// y.dim(-1)] and is added at every position.
absl::StatusOr<Tensor> WithAddend(absl::StatusOr<Tensor> y, const Tensor& addend);

// Returns a * b, both of one shape and dtype (fp32 or bf16). The gradient of a is Multiply(dy, b),
// that of b Multiply(dy, a).
absl::StatusOr<Tensor> Multiply(const Tensor& a, const Tensor& b);

// A residual connection whose branch is multiplied by numbers of the sample, as in adaLN-Zero
// (Peebles and Xie, arXiv 2212.09748).
//
//   y[b, ..., c] = x[b, ..., c] + gate[b, c] h[b, ..., c]

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

#endif  // DPIPE_CORE_OPS_ELEMENTWISE_ELEMENTWISE_H_

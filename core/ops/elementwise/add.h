// Sums: residual connections, gradients from several readers, a time embedding added to every
// pixel.
#ifndef DPIPE_CORE_OPS_ELEMENTWISE_ADD_H_
#define DPIPE_CORE_OPS_ELEMENTWISE_ADD_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

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

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ELEMENTWISE_ADD_H_

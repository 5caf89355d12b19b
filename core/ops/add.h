// Sums: residual connections, gradients that meet, a time embedding added to every pixel.
#ifndef DPIPE_CORE_OPS_ADD_H_
#define DPIPE_CORE_OPS_ADD_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// a + b, of one shape and dtype (fp32 or bf16). Its gradient is dy for both.
absl::StatusOr<Tensor> Add(const Tensor& a, const Tensor& b);

// x [B, ..., C] + v [B, C] at every position; one dtype. The gradient to x is dy.
absl::StatusOr<Tensor> AddChannels(const Tensor& x, const Tensor& v);

// The gradient to v: dy [B, ..., C] summed in fp32 over positions -> [B, C] in dy's dtype.
absl::StatusOr<Tensor> AddChannelsVectorGrad(const Tensor& dy);

// factor * x, of x's shape and dtype (fp32 or bf16).
absl::StatusOr<Tensor> Scale(float factor, const Tensor& x);

// y += factor * x, in place: of one shape, x fp32 or bf16, y fp32 or of x's dtype.
absl::Status Axpy(float factor, const Tensor& x, Tensor* y);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ADD_H_

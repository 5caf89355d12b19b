// Weighted sums with one pair of weights per sample: adding noise, and the steps of samplers.
#ifndef DPIPE_CORE_OPS_DIFFUSION_COMBINE_H_
#define DPIPE_CORE_OPS_DIFFUSION_COMBINE_H_

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Returns z[b] = x_weights[b] * x[b] + y_weights[b] * y[b], computed in fp32 and rounded once to
// `dtype`. x and y have one shape [B, ...], each fp32 or bf16, and there are B weights each. A
// weight of zero still propagates NaN.
absl::StatusOr<Tensor> CombineSamples(absl::Span<const float> x_weights, const Tensor& x,
                                      absl::Span<const float> y_weights, const Tensor& y,
                                      DType dtype);
// As above, with fp32 [B] weights on the tensors' device.
absl::StatusOr<Tensor> CombineSamples(const Tensor& x_weights, const Tensor& x,
                                      const Tensor& y_weights, const Tensor& y, DType dtype);

// Looks up one number per sample in a constant table: y[b] = table[index[b]], fp32 [B], on the
// device of `index`, int32 [B]. NaN if the index is outside the table.
absl::StatusOr<Tensor> LookUp(absl::Span<const float> table, const Tensor& index);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_DIFFUSION_COMBINE_H_

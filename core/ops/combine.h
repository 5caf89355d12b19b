// Weighted sums with one pair of weights a sample: noising, and the steps of samplers.
#ifndef DPIPE_CORE_OPS_COMBINE_H_
#define DPIPE_CORE_OPS_COMBINE_H_

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// z[b] = x_weights[b] * x[b] + y_weights[b] * y[b], in fp32 and rounded once to `dtype`. x and y of
// one shape [B, ...], each fp32 or bf16; B weights each. A weight of zero still propagates NaN.
absl::StatusOr<Tensor> CombineSamples(absl::Span<const float> x_weights, const Tensor& x,
                                      absl::Span<const float> y_weights, const Tensor& y,
                                      DType dtype);
// As above, with the weights, fp32 [B], on the tensors' device.
absl::StatusOr<Tensor> CombineSamples(const Tensor& x_weights, const Tensor& x,
                                      const Tensor& y_weights, const Tensor& y, DType dtype);

// Numbers of a constant table, one a sample: y[b] = table[index[b]], fp32 [B], on the device of
// `index`, int32 [B]. NaN where the table has no such entry.
absl::StatusOr<Tensor> LookUp(absl::Span<const float> table, const Tensor& index);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_COMBINE_H_

// The implementations behind combine.cc. z has x's shape.
#ifndef DPIPE_CORE_OPS_DIFFUSION_COMBINE_KERNELS_H_
#define DPIPE_CORE_OPS_DIFFUSION_COMBINE_KERNELS_H_

#include "absl/types/span.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {
namespace ref {
void CombineSamples(absl::Span<const float> x_weights, const Tensor& x,
                    absl::Span<const float> y_weights, const Tensor& y, Tensor* z);
void LookUp(absl::Span<const float> table, const Tensor& index, Tensor* y);
}  // namespace ref
namespace cpu {
void CombineSamples(absl::Span<const float> x_weights, const Tensor& x,
                    absl::Span<const float> y_weights, const Tensor& y, Tensor* z);
}  // namespace cpu
namespace cuda {
void CombineSamples(absl::Span<const float> x_weights, const Tensor& x,
                    absl::Span<const float> y_weights, const Tensor& y, Tensor* z);
void CombineSamples(const Tensor& x_weights, const Tensor& x, const Tensor& y_weights,
                    const Tensor& y, Tensor* z);
void LookUp(absl::Span<const float> table, const Tensor& index, Tensor* y);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_DIFFUSION_COMBINE_KERNELS_H_

// The implementations behind many_tensors.cc.
#ifndef DPIPE_CORE_OPS_OPTIMIZER_MANY_TENSORS_KERNELS_H_
#define DPIPE_CORE_OPS_OPTIMIZER_MANY_TENSORS_KERNELS_H_

#include "absl/types/span.h"
#include "core/ops/optimizer/many_tensors.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

namespace ref {
void Axpby(float a, float b, absl::Span<const AxpbyPair> pairs);
}  // namespace ref
namespace cpu {
void Axpby(float a, float b, absl::Span<const AxpbyPair> pairs);
}  // namespace cpu
namespace cuda {
void Axpby(float a, float b, absl::Span<const AxpbyPair> pairs);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_OPTIMIZER_MANY_TENSORS_KERNELS_H_

// Elementwise work on many fp32 tensors of one device. On CUDA devices one launch handles several
// hundred of them.
#ifndef DPIPE_CORE_OPS_OPTIMIZER_MANY_TENSORS_H_
#define DPIPE_CORE_OPS_OPTIMIZER_MANY_TENSORS_H_

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Computes y = a x + b y for each pair: moving averages of weights, sums of their changes.
struct AxpbyPair {
  Tensor x, y;  // of one shape
};
absl::Status Axpby(float a, float b, absl::Span<const AxpbyPair> pairs);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_OPTIMIZER_MANY_TENSORS_H_

// Optional addends of an op's result: a residual connection, or the contribution of other readers
// to a gradient.
#ifndef DPIPE_CORE_OPS_ELEMENTWISE_ADDEND_H_
#define DPIPE_CORE_OPS_ELEMENTWISE_ADDEND_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Dies unless the addend is undefined or has the result's shape and element type.
void CheckAddend(const Tensor& addend, const Shape& shape, DType dtype);

// Returns y + addend, in y's memory if possible; y is rounded before. For implementations without
// an addend of their own. The addend is undefined, has y's shape, or has shape [y.dim(0),
// y.dim(-1)] and is added at every position.
absl::StatusOr<Tensor> WithAddend(absl::StatusOr<Tensor> y, const Tensor& addend);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ELEMENTWISE_ADDEND_H_

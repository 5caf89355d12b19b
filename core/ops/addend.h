// What an op adds to its result, where something is to be added: a residual connection, or what
// other readers contribute to a gradient.
#ifndef DPIPE_CORE_OPS_ADDEND_H_
#define DPIPE_CORE_OPS_ADDEND_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Dies unless the addend is undefined or has the result's shape and element type.
void CheckAddend(const Tensor& addend, const Shape& shape, DType dtype);

// y + addend, in y's memory where it can be: for implementations that do not add it themselves. y
// is rounded before. The addend has y's shape, or [y.dim(0), y.dim(-1)] and is added at every
// position, or is undefined.
absl::StatusOr<Tensor> WithAddend(absl::StatusOr<Tensor> y, const Tensor& addend);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ADDEND_H_

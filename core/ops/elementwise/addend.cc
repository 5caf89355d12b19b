#include "core/ops/elementwise/addend.h"

#include "core/ops/elementwise/add.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {

void CheckAddend(const Tensor& addend, const Shape& shape, DType dtype) {
  if (!addend.defined()) return;
  DPIPE_CHECK_EQ(addend.shape(), shape) << "an addend";
  DPIPE_CHECK(addend.dtype() == dtype)
      << DTypeName(addend.dtype()) << " added to " << DTypeName(dtype);
}

absl::StatusOr<Tensor> WithAddend(absl::StatusOr<Tensor> y, const Tensor& addend) {
  if (!y.ok() || !addend.defined()) return y;
  if (addend.shape() != y->shape()) return AddChannels(*y, addend);
  DPIPE_RETURN_IF_ERROR(Axpy(1, addend, &*y));
  return y;
}

}  // namespace dpipe::ops

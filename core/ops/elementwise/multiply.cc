#include "core/ops/elementwise/multiply.h"

#include "core/ops/elementwise/multiply_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {

absl::StatusOr<Tensor> Multiply(const Tensor& a, const Tensor& b) {
  CheckFloat(a);
  CheckAlike(a, b);
  Tensor y = Tensor::Empty(a.device(), a.shape(), a.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *a.device(), "multiply", [&] { ref::Multiply(a, b, &y); }, [&] { cpu::Multiply(a, b, &y); },
      [&] { cuda::Multiply(a, b, &y); }));
  return y;
}

}  // namespace dpipe::ops

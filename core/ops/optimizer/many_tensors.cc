#include "core/ops/optimizer/many_tensors.h"

#include "core/ops/optimizer/many_tensors_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {

absl::Status Axpby(float a, float b, absl::Span<const AxpbyPair> pairs) {
  if (pairs.empty()) return absl::OkStatus();
  for (const AxpbyPair& pair : pairs) {
    CheckFp32(pair.x, pair.y.shape());
    CheckFp32(pair.y, pair.y.shape());
  }
  return RunOn(
      *pairs[0].y.device(), "axpby", [&] { ref::Axpby(a, b, pairs); },
      [&] { cpu::Axpby(a, b, pairs); }, [&] { cuda::Axpby(a, b, pairs); });
}

}  // namespace dpipe::ops

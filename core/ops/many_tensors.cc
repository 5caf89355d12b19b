#include "core/ops/many_tensors.h"

#include "core/ops/backend.h"
#include "core/ops/many_tensors_kernels.h"

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

absl::Status FillZero(absl::Span<const Tensor> tensors) {
  if (tensors.empty()) return absl::OkStatus();
  for (const Tensor& t : tensors) CheckFp32(t, t.shape());
  const auto one_by_one = [&] {
    for (Tensor t : tensors) t.FillZero();
  };
  return RunOn(*tensors[0].device(), "fill_zero", one_by_one, one_by_one,
               [&] { cuda::FillZero(tensors); });
}

}  // namespace dpipe::ops

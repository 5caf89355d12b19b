#include "core/profile/gpu_ceilings.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/median.h"
#include "core/ops/product/linear.h"
#include "core/ops/product/weight.h"
#include "core/ops/support/convert.h"
#include "core/profile/pass_timer.h"
#include "core/tensor/tensor.h"

namespace dpipe {
namespace {

// Returns a matrix uniform in [-1, 1). Zeros would need less power and therefore run faster.
Tensor RandomMatrix(const std::shared_ptr<Device>& device, int64_t side, uint32_t seed) {
  std::vector<float> values(side * side);
  uint32_t state = seed;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;  // Numerical Recipes' linear congruential generator
    value = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
  return Tensor::FromHost<float>(device, {side, side}, values);
}

// Returns the median time of `run` in seconds over the passes, after one warm-up pass.
template <typename Run>
absl::StatusOr<double> MedianSeconds(Device* device, int passes, const Run& run) {
  DPIPE_RETURN_IF_ERROR(run());
  std::vector<Nanos> times;
  PassTimer timer(device);
  timer.Begin();
  for (int pass = 0; pass < passes; ++pass) {
    DPIPE_RETURN_IF_ERROR(run());
    timer.End(&times);
  }
  DPIPE_RETURN_IF_ERROR(timer.Finish(/*keep=*/true));
  return 1e-9 * static_cast<double>(std::max<Nanos>(1, MedianSample(std::move(times))));
}

absl::StatusOr<GpuCeilings> Measure(const std::shared_ptr<Device>& device,
                                    const GpuCeilingsOptions& options) {
  GpuCeilings ceilings;
  {
    const ops::Weight weight(RandomMatrix(device, options.side, 1));
    const Tensor x = ops::Narrowed(RandomMatrix(device, options.side, 2));
    DPIPE_ASSIGN_OR_RETURN(const double seconds, MedianSeconds(device.get(), options.passes, [&] {
                             return ops::LinearForward(x, weight, Tensor(), Tensor()).status();
                           }));
    const auto side = static_cast<double>(options.side);
    ceilings.set_flops_per_s(2 * side * side * side / seconds);
  }
  const Tensor from = Tensor::Zeros(device, {options.copy_bytes / 4}, DType::kF32);
  const Tensor to = Tensor::Zeros(device, from.shape(), DType::kF32);
  DPIPE_ASSIGN_OR_RETURN(const double seconds, MedianSeconds(device.get(), options.passes, [&] {
                           device->CopyFromPeer(to.raw_data(), *device, from.raw_data(),
                                                from.size_bytes());
                           return absl::OkStatus();
                         }));
  ceilings.set_bytes_per_s(2 * static_cast<double>(from.size_bytes()) / seconds);
  return ceilings;
}

}  // namespace

absl::StatusOr<GpuCeilings> MeasureGpuCeilings(DeviceWorker* worker,
                                               const GpuCeilingsOptions& options) {
  GpuCeilings ceilings;
  worker->Start([&]() -> absl::Status {
    DPIPE_ASSIGN_OR_RETURN(ceilings, Measure(worker->device(), options));
    return absl::OkStatus();
  });
  DPIPE_RETURN_IF_ERROR(worker->Wait());
  return ceilings;
}

}  // namespace dpipe

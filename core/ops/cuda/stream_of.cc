#include "core/ops/cuda/stream_of.h"

#include "core/base/check.h"
#include "core/ops/cuda/emulated_device.h"
#include "core/tensor/cuda/cuda_device.h"

namespace dpipe::ops::cuda {

Stream StreamOf(const Device& device) {
  if (dynamic_cast<const EmulatedDevice*>(&device) != nullptr) return {nullptr, true};
  const auto* const gpu = dynamic_cast<const dpipe::cuda::CudaDevice*>(&device);
  DPIPE_CHECK(gpu != nullptr) << device.name() << " is no CUDA device";
  dpipe::cuda::HostQueue* const queue = gpu->driver().host_queue();
  return {gpu->stream(), queue != nullptr, queue};
}

}  // namespace dpipe::ops::cuda

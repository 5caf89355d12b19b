#include "core/ops/cuda/stream_of.h"

#include "core/base/check.h"
#include "core/ops/cuda/emulated_gpu/emulated_device.h"
#include "core/tensor/cuda/cuda_device.h"

namespace dpipe::ops::cuda {

namespace {

// Returns null if the device is emulated.
const dpipe::cuda::CudaDevice* GpuOf(const Device& device) {
  if (dynamic_cast<const EmulatedDevice*>(&device) != nullptr) return nullptr;
  const auto* const gpu = dynamic_cast<const dpipe::cuda::CudaDevice*>(&device);
  DPIPE_CHECK(gpu != nullptr) << device.name() << " is not a CUDA device";
  return gpu;
}

}  // namespace

Stream StreamOf(const Device& device) {
  const dpipe::cuda::CudaDevice* const gpu = GpuOf(device);
  if (gpu == nullptr) return {nullptr, true};
  dpipe::cuda::HostQueue* const queue = gpu->driver().host_queue();
  return {gpu->stream(), queue != nullptr, queue};
}

int MultiprocessorsOf(const Device& device) {
  const dpipe::cuda::CudaDevice* const gpu = GpuOf(device);
  return gpu != nullptr ? gpu->context().multiprocessors : 132;
}

}  // namespace dpipe::ops::cuda

#include "core/tensor/cuda/usable_memory.h"

#include <algorithm>
#include <map>

#include "core/tensor/cuda/cuda_device.h"

namespace dpipe::cuda {
namespace {

// One eighth of the GPU's memory is left unused:
// - CUDA's context and libraries take 1 to 2 GB.
// - Plans count the activations that layers pass on and save. They do not count the workspace of
//   kernels and nodes (a VAE encoder on 4 images of 512 pixels: 1 GB) or the idle space between a
//   pool's blocks.
int64_t Usable(const Gpu& gpu) { return gpu.memory_bytes - gpu.memory_bytes / 8; }

// Returns null for CPUs and emulated GPUs.
const Gpu* GpuOf(const Device& device) {
  const auto* const gpu = dynamic_cast<const CudaDevice*>(&device);
  return gpu == nullptr ? nullptr : &gpu->gpu();
}

}  // namespace

std::vector<int64_t> UsableBytes(const std::vector<std::shared_ptr<Device>>& devices) {
  std::map<int, int> num_sharing;  // GPU index to number of its devices
  for (const auto& device : devices) {
    if (const Gpu* gpu = GpuOf(*device)) ++num_sharing[gpu->index];
  }
  std::vector<int64_t> usable;
  for (const auto& device : devices) {
    const Gpu* const gpu = GpuOf(*device);
    usable.push_back(gpu == nullptr ? 0 : Usable(*gpu) / num_sharing[gpu->index]);
  }
  return usable;
}

bool ShareOneGpu(const std::vector<std::shared_ptr<Device>>& devices) {
  const Gpu* const first = devices.empty() ? nullptr : GpuOf(*devices[0]);
  if (first == nullptr || devices.size() == 1) return false;
  return std::all_of(devices.begin(), devices.end(), [&](const auto& device) {
    const Gpu* const gpu = GpuOf(*device);
    return gpu != nullptr && gpu->index == first->index;
  });
}

}  // namespace dpipe::cuda

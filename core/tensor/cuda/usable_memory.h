// The amount of GPU memory that tensors can use.
#ifndef DPIPE_CORE_TENSOR_CUDA_USABLE_MEMORY_H_
#define DPIPE_CORE_TENSOR_CUDA_USABLE_MEMORY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/tensor/device.h"

namespace dpipe::cuda {

// Returns the usable memory in bytes of each device, for devices that compute at the same time.
// Devices on one GPU get equal parts of the memory that plans and profiles may count on there. The
// value is 0 for devices with host memory and for GPUs of unknown memory size.
std::vector<int64_t> UsableBytes(const std::vector<std::shared_ptr<Device>>& devices);

// True if there are several devices, all on one GPU.
bool ShareOneGpu(const std::vector<std::shared_ptr<Device>>& devices);

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_USABLE_MEMORY_H_

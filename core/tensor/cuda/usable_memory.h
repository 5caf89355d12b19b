// How much of a GPU's memory tensors can have.
#ifndef DPIPE_CORE_TENSOR_CUDA_USABLE_MEMORY_H_
#define DPIPE_CORE_TENSOR_CUDA_USABLE_MEMORY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/tensor/device.h"

namespace dpipe::cuda {

// By device, of devices that compute at the same time: those of one GPU have equal parts of what
// plans and profiles may count on there. 0 of devices that have the host's memory, and of GPUs
// whose memory is not known.
std::vector<int64_t> UsableBytes(const std::vector<std::shared_ptr<Device>>& devices);

// Whether they are several devices, all of one GPU.
bool ShareOneGpu(const std::vector<std::shared_ptr<Device>>& devices);

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_USABLE_MEMORY_H_

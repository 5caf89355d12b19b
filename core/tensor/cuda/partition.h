// Virtual GPUs: division of one GPU's multiprocessors.
#ifndef DPIPE_CORE_TENSOR_CUDA_PARTITION_H_
#define DPIPE_CORE_TENSOR_CUDA_PARTITION_H_

#include <string>

#include "core/base/status.h"
#include "core/tensor/cuda/driver.h"

namespace dpipe::cuda {

// Returns the maximum number of multiprocessors that each of `count` equal shares of the GPU can
// have. The remainder stays unused, because unequal devices would make unequal stages.
// InvalidArgument if a share would be smaller than the GPU allows; the message names the GPU, both
// counts and the limit.
absl::StatusOr<int> MultiprocessorsOfShare(Driver* driver, const Gpu& gpu, int count);

// Describes the GPU, as in "GPU 0 (NVIDIA H200, compute capability 9.0, 132 multiprocessors, 139.8
// GiB)".
std::string DescribeGpu(const Gpu& gpu);

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_PARTITION_H_

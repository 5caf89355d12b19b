// Virtual GPUs: how one GPU's multiprocessors are divided.
#ifndef DPIPE_CORE_TENSOR_CUDA_PARTITION_H_
#define DPIPE_CORE_TENSOR_CUDA_PARTITION_H_

#include <string>

#include "core/base/status.h"
#include "core/tensor/cuda/driver.h"

namespace dpipe::cuda {

// The most multiprocessors that each of `count` equal shares of the GPU can have; what does not
// divide stays unused, since unequal devices would make unequal stages. InvalidArgument where a
// share would be smaller than the GPU allows: it names the GPU, both counts and the limit.
absl::StatusOr<int> MultiprocessorsOfShare(Driver* driver, const Gpu& gpu, int count);

// "GPU 0 (NVIDIA H200, compute capability 9.0, 132 multiprocessors, 139.8 GiB)".
std::string DescribeGpu(const Gpu& gpu);

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_PARTITION_H_

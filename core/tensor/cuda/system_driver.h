// This machine's GPUs.
#ifndef DPIPE_CORE_TENSOR_CUDA_SYSTEM_DRIVER_H_
#define DPIPE_CORE_TENSOR_CUDA_SYSTEM_DRIVER_H_

#include "core/base/status.h"
#include "core/tensor/cuda/driver.h"

namespace dpipe::cuda {

// The CUDA runtime and driver. FailedPrecondition says why there is no GPU to work with;
// Unimplemented where the program was built without the CUDA toolkit. The same object every time.
absl::StatusOr<Driver*> SystemDriver();

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_SYSTEM_DRIVER_H_

// This machine's GPUs.
#ifndef DPIPE_CORE_TENSOR_CUDA_SYSTEM_DRIVER_H_
#define DPIPE_CORE_TENSOR_CUDA_SYSTEM_DRIVER_H_

#include "core/base/status.h"
#include "core/tensor/cuda/driver.h"

namespace dpipe::cuda {

// Returns the driver that uses the CUDA runtime and driver; always the same object.
// FailedPrecondition, with the reason, if there is no usable GPU. Unimplemented if the program was
// built without the CUDA toolkit.
absl::StatusOr<Driver*> SystemDriver();

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_SYSTEM_DRIVER_H_

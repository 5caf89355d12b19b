// This machine's GPUs, and the environment variables that CUDA reads.
#ifndef DPIPE_CORE_TENSOR_CUDA_SYSTEM_DRIVER_H_
#define DPIPE_CORE_TENSOR_CUDA_SYSTEM_DRIVER_H_

#include "core/base/status.h"
#include "core/tensor/cuda/driver.h"

namespace dpipe::cuda {

// Returns the driver that uses the CUDA runtime and driver; always the same object.
// FailedPrecondition, with the reason, if there is no usable GPU. Unimplemented if the program was
// built without the CUDA toolkit.
absl::StatusOr<Driver*> SystemDriver();

// Environment variables that CUDA and its libraries read once, at their first use:
//
// Sets CUDA_MODULE_LOADING to EAGER, unless it is set. Call this before the first use of the
// driver, in processes whose ranks communicate over NCCL.
//
// By default a kernel is loaded at its first launch, and loading may wait until the GPU is idle.
// The GPU is not idle while an NCCL receive that was posted ahead waits there for its message. If
// that message depends on the kernel being loaded, the first step deadlocks. Ranks that share a GPU
// do not need this: their messages are events. They save the memory and the seconds that eager
// loading costs. Kernels that cuDNN compiles for a plan are loaded when the plan is made, which is
// also before the first message: see core/runtime/interpreter/warm_up.h.
void LoadKernelsAtOnce();

// Returns InvalidArgument if NVIDIA_TF32_OVERRIDE is set to anything but 0. Libraries would then
// silently compute fp32 products in TF32, whose mantissa has 10 bits instead of 23.
absl::Status CheckPrecision();

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_SYSTEM_DRIVER_H_

// What CUDA and its libraries read of this process's environment, once, when they are first used.
#ifndef DPIPE_CORE_TENSOR_CUDA_ENVIRONMENT_H_
#define DPIPE_CORE_TENSOR_CUDA_ENVIRONMENT_H_

#include "core/base/status.h"

namespace dpipe::cuda {

// To be called before anything asks the driver for anything, in processes whose ranks talk over
// NCCL: CUDA_MODULE_LOADING becomes EAGER, unless it is set.
//
// By default a kernel is loaded when it is first launched, and loading may wait until the GPU is
// idle. It is not while NCCL waits there for a message that was posted ahead; where that message
// depends on the very kernel, the first step never ends. Ranks that share a GPU do not need it,
// since their messages are events, and are spared the memory and the seconds that it takes. What
// cuDNN compiles for a plan of its own is loaded when the plan is made, which is before the first
// message too: core/runtime/interpreter/rehearsal.h.
void LoadKernelsAtOnce();

// InvalidArgument where NVIDIA_TF32_OVERRIDE is set to anything but 0: libraries would then compute
// fp32 products in TF32, whose mantissa has 10 bits instead of 23, without a word.
absl::Status CheckPrecision();

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_ENVIRONMENT_H_

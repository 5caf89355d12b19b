// Launch errors of the CUDA runtime.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_LAUNCH_ERROR_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_LAUNCH_ERROR_H_

namespace dpipe::ops::cuda {

// Returns the error of the calling thread's launches since the last call, or null. Null without
// CUDA.
const char* LastLaunchError();

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_LAUNCH_ERROR_H_

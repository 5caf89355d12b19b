// What the CUDA runtime has to say of launches.
#ifndef DPIPE_CORE_OPS_CUDA_LAUNCH_ERROR_H_
#define DPIPE_CORE_OPS_CUDA_LAUNCH_ERROR_H_

namespace dpipe::ops::cuda {

// Of the calling thread's launches since the last call; null: nothing. Null without CUDA.
const char* LastLaunchError();

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_LAUNCH_ERROR_H_

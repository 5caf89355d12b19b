#include "core/ops/cuda/kernels/kernel.h"

namespace dpipe::ops::cuda {

#if defined(__CUDACC__)
const char* LastLaunchError() {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}
#else
const char* LastLaunchError() { return nullptr; }
#endif

}  // namespace dpipe::ops::cuda

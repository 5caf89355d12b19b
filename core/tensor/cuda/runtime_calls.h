// Calls of the CUDA driver and runtime whose errors become statuses that name the call. Not for use
// by anything but the runtime driver.
#ifndef DPIPE_CORE_TENSOR_CUDA_RUNTIME_CALLS_H_
#define DPIPE_CORE_TENSOR_CUDA_RUNTIME_CALLS_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/cuda/cuda_status.h"
#include "core/cuda/driver_api.h"

namespace dpipe::cuda {

absl::Status DriverStatus(const DriverApi& api, CUresult result, absl::string_view call);

// The runtime leaves an error in the calling thread's slot, too, where whoever looks for an error
// of a kernel's launch would take it for that.
inline absl::Status RuntimeStatus(cudaError_t error, absl::string_view call) {
  if (error != cudaSuccess) cudaGetLastError();
  return CudaStatus(error, call);
}

// In a function that returns a status; DPIPE_DRIVER wants a DriverApi called `api`.
#define DPIPE_DRIVER(call) DPIPE_RETURN_IF_ERROR(DriverStatus(*api, api->call, #call))
#define DPIPE_RUNTIME(call) DPIPE_RETURN_IF_ERROR(RuntimeStatus((call), #call))

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_RUNTIME_CALLS_H_

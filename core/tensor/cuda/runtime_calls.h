// Turns errors of CUDA driver and runtime calls into statuses that name the call. Only for the
// runtime driver.
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

// The runtime also stores an error in a slot of the calling thread. This clears it, so that a later
// check for launch errors does not mistake it for one.
inline absl::Status RuntimeStatus(cudaError_t error, absl::string_view call) {
  if (error != cudaSuccess) cudaGetLastError();
  return CudaStatus(error, call);
}

// For use in functions that return a status. DPIPE_DRIVER expects a DriverApi named `api` in scope.
#define DPIPE_DRIVER(call) DPIPE_RETURN_IF_ERROR(DriverStatus(*api, api->call, #call))
#define DPIPE_RUNTIME(call) DPIPE_RETURN_IF_ERROR(RuntimeStatus((call), #call))

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_RUNTIME_CALLS_H_

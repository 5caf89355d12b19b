// Errors of CUDA's libraries as Statuses: converted once, here.
#ifndef DPIPE_CORE_CUDA_CUDA_STATUS_H_
#define DPIPE_CORE_CUDA_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

// Returns from the enclosing function if a call of the runtime API fails; the error has the call.
#define DPIPE_CUDA(call) DPIPE_RETURN_IF_ERROR(::dpipe::CudaStatus((call), #call))

namespace dpipe {

// "cudaMalloc(...): cudaErrorMemoryAllocation: out of memory". ResourceExhausted where memory is
// lacking, FailedPrecondition where there is no device or no fit driver, Unimplemented for what a
// device or driver does not support, Internal otherwise.
absl::Status CudaStatus(cudaError_t error, absl::string_view call);

// How many GPUs this process may use. FailedPrecondition says why there is none: "no GPU: ...".
absl::StatusOr<int> CountGpus();

}  // namespace dpipe

#endif  // DPIPE_CORE_CUDA_CUDA_STATUS_H_

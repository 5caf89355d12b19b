// Conversion of CUDA runtime errors to Statuses.
#ifndef DPIPE_CORE_CUDA_CUDA_STATUS_H_
#define DPIPE_CORE_CUDA_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

// Returns from the enclosing function if a call of the runtime API fails. The error contains the
// text of the call.
#define DPIPE_CUDA(call) DPIPE_RETURN_IF_ERROR(::dpipe::CudaStatus((call), #call))

namespace dpipe {

// Converts a runtime error, as in "cudaMalloc(...): cudaErrorMemoryAllocation: out of memory".
// - ResourceExhausted: out of memory.
// - FailedPrecondition: no device, or no suitable driver.
// - Unimplemented: the device or driver does not support the call.
// - Internal: all other errors.
absl::Status CudaStatus(cudaError_t error, absl::string_view call);

// Returns the number of GPUs that this process may use. FailedPrecondition ("no GPU: ...") with the
// reason if there is none.
absl::StatusOr<int> CountGpus();

}  // namespace dpipe

#endif  // DPIPE_CORE_CUDA_CUDA_STATUS_H_

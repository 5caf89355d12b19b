#include "core/cuda/cuda_status.h"

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

absl::StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return absl::StatusCode::kOk;
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInvalidDevice:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorNoKernelImageForDevice:
      return absl::StatusCode::kFailedPrecondition;
    case cudaErrorNotSupported:
    case cudaErrorStreamCaptureUnsupported:
      return absl::StatusCode::kUnimplemented;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status CudaStatus(cudaError_t error, absl::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::Status(CodeOf(error), absl::StrCat(call, ": ", cudaGetErrorName(error), ": ",
                                                  cudaGetErrorString(error)));
}

absl::StatusOr<int> CountGpus() {
  int count = 0, driver = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  const bool has_driver = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
  cudaGetLastError();  // clears the error, or the next call would report it
  return absl::FailedPreconditionError(
      absl::StrCat("no GPU: ", !has_driver            ? "this machine has no NVIDIA driver"
                               : error == cudaSuccess ? "the driver shows none"
                                                      : cudaGetErrorString(error)));
}

}  // namespace dpipe

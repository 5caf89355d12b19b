#include "core/tensor/cuda/runtime_calls.h"

#include "absl/strings/str_cat.h"

namespace dpipe::cuda {

absl::Status DriverStatus(const DriverApi& api, CUresult result, absl::string_view call) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* name = nullptr;
  const char* text = nullptr;
  api.cuGetErrorName(result, &name);
  api.cuGetErrorString(result, &text);
  const auto code = result == CUDA_ERROR_NOT_SUPPORTED ? absl::StatusCode::kUnimplemented
                                                       : absl::StatusCode::kInternal;
  return absl::Status(code, absl::StrCat(call, ": ", name != nullptr ? name : "unknown error", ": ",
                                         text != nullptr ? text : ""));
}

}  // namespace dpipe::cuda

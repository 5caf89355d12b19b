#include "core/cuda/cublas_lt_api.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

absl::Status Bind(const SharedLibrary& library, CublasLtApi& table) {
  DPIPE_CUBLAS_LT_FUNCTIONS(DPIPE_TABLE_BIND)
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const CublasLtApi*> LoadCublasLt() {
  static const auto* const loaded = new absl::StatusOr<CublasLtApi>(
      LoadTable(CudaLibraryNames("libcublasLt.so.13"),
                "matrix products on a GPU need it: install cuBLAS of CUDA 13", Bind));
  return PointerOrStatus(*loaded);
}

absl::Status CublasLtStatus(const CublasLtApi& api, cublasStatus_t status, absl::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string message = absl::StrCat(call, ": ", api.cublasLtGetStatusString(status));
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH
             ? absl::UnimplementedError(message)
             : absl::InternalError(message);
}

}  // namespace dpipe

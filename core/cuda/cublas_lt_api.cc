#include "core/cuda/cublas_lt_api.h"

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

}  // namespace dpipe

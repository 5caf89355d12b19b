// cuBLASLt: matrix products.
#ifndef DPIPE_CORE_CUDA_CUBLAS_LT_API_H_
#define DPIPE_CORE_CUDA_CUBLAS_LT_API_H_

#include <cublasLt.h>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/cuda/function_table.h"

#define DPIPE_CUBLAS_LT_FUNCTIONS(X)      \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtGetVersion)                   \
  X(cublasLtGetStatusString)              \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)     \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)

namespace dpipe {

struct CublasLtApi {
  DPIPE_CUBLAS_LT_FUNCTIONS(DPIPE_TABLE_MEMBER)
};

// Returns the function table; always the same object. NotFound names the library if it is missing
// or too old. Thread-safe.
absl::StatusOr<const CublasLtApi*> LoadCublasLt();

// Converts a cuBLASLt status, as in "cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED". Unimplemented if
// the library or the GPU does not support the call, Internal for other errors.
absl::Status CublasLtStatus(const CublasLtApi& api, cublasStatus_t status, absl::string_view call);

}  // namespace dpipe

#endif  // DPIPE_CORE_CUDA_CUBLAS_LT_API_H_

// cuDNN: its version and its graph API.
#ifndef DPIPE_CORE_CUDA_CUDNN_API_H_
#define DPIPE_CORE_CUDA_CUDNN_API_H_

#include <cudnn.h>

#include "core/base/status.h"
#include "core/cuda/function_table.h"

#define DPIPE_CUDNN_FUNCTIONS(X)   \
  X(cudnnGetVersion)               \
  X(cudnnGetErrorString)           \
  X(cudnnGetLastErrorString)       \
  X(cudnnCreate)                   \
  X(cudnnDestroy)                  \
  X(cudnnSetStream)                \
  X(cudnnBackendCreateDescriptor)  \
  X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendFinalize)          \
  X(cudnnBackendSetAttribute)      \
  X(cudnnBackendGetAttribute)      \
  X(cudnnBackendExecute)

namespace dpipe {

struct CudnnApi {
  DPIPE_CUDNN_FUNCTIONS(DPIPE_TABLE_MEMBER)
};

// Returns the function table; always the same object. NotFound names the library if it is missing
// or too old. Thread-safe.
absl::StatusOr<const CudnnApi*> LoadCudnn();

}  // namespace dpipe

#endif  // DPIPE_CORE_CUDA_CUDNN_API_H_

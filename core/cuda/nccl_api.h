// NCCL: messages between GPUs. Our collectives consist of them.
#ifndef DPIPE_CORE_CUDA_NCCL_API_H_
#define DPIPE_CORE_CUDA_NCCL_API_H_

#include <nccl.h>

#include "core/base/status.h"
#include "core/cuda/function_table.h"

#define DPIPE_NCCL_FUNCTIONS(X) \
  X(ncclGetVersion)             \
  X(ncclGetErrorString)         \
  X(ncclGetLastError)           \
  X(ncclGetUniqueId)            \
  X(ncclCommInitRankConfig)     \
  X(ncclCommGetAsyncError)      \
  X(ncclCommAbort)              \
  X(ncclGroupStart)             \
  X(ncclGroupEnd)               \
  X(ncclSend)                   \
  X(ncclRecv)

namespace dpipe {

struct NcclApi {
  DPIPE_NCCL_FUNCTIONS(DPIPE_TABLE_MEMBER)
};

// Returns the function table; always the same object. NotFound names the library if it is missing
// or too old. Thread-safe.
absl::StatusOr<const NcclApi*> LoadNccl();

}  // namespace dpipe

#endif  // DPIPE_CORE_CUDA_NCCL_API_H_

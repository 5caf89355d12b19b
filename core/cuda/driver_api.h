// The CUDA driver, for features that the runtime API lacks, above all virtual GPUs.
#ifndef DPIPE_CORE_CUDA_DRIVER_API_H_
#define DPIPE_CORE_CUDA_DRIVER_API_H_

#include <cuda.h>

#include "core/base/status.h"
#include "core/cuda/function_table.h"

#define DPIPE_DRIVER_FUNCTIONS(X) \
  X(cuGetErrorName)               \
  X(cuGetErrorString)             \
  X(cuInit)                       \
  X(cuDriverGetVersion)           \
  X(cuDeviceGet)                  \
  X(cuDeviceGetDevResource)       \
  X(cuDevSmResourceSplitByCount)  \
  X(cuDevResourceGenerateDesc)    \
  X(cuGreenCtxCreate)             \
  X(cuGreenCtxDestroy)            \
  X(cuGreenCtxStreamCreate)       \
  X(cuCtxFromGreenCtx)            \
  X(cuCtxGetCurrent)              \
  X(cuCtxSetCurrent)

namespace dpipe {

struct DriverApi {
  DPIPE_DRIVER_FUNCTIONS(DPIPE_TABLE_MEMBER)
};

// Returns the function table; always the same object. NotFound names the library if it is missing
// or too old. Thread-safe.
absl::StatusOr<const DriverApi*> LoadDriver();

}  // namespace dpipe

#endif  // DPIPE_CORE_CUDA_DRIVER_API_H_

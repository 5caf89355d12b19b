// CUPTI: records when the GPU runs kernels and copies.
#ifndef DPIPE_CORE_CUDA_CUPTI_API_H_
#define DPIPE_CORE_CUDA_CUPTI_API_H_

#include <cupti.h>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/cuda/function_table.h"

#define DPIPE_CUPTI_FUNCTIONS(X)            \
  X(cuptiGetVersion)                        \
  X(cuptiGetResultString)                   \
  X(cuptiActivityRegisterCallbacks)         \
  X(cuptiActivityEnable)                    \
  X(cuptiActivityDisable)                   \
  X(cuptiActivityFlushAll)                  \
  X(cuptiActivityGetNextRecord)             \
  X(cuptiActivityGetNumDroppedRecords)      \
  X(cuptiActivityPushExternalCorrelationId) \
  X(cuptiActivityPopExternalCorrelationId)

namespace dpipe {

struct CuptiApi {
  DPIPE_CUPTI_FUNCTIONS(DPIPE_TABLE_MEMBER)
};

// Returns the function table; always the same object. NotFound names the library if it is missing
// or too old. Thread-safe.
absl::StatusOr<const CuptiApi*> LoadCupti();

// Converts a CUPTI result to FailedPrecondition, as in "cuptiActivityEnable: CUPTI_ERROR_...",
// because CUPTI requires a driver that permits recording.
absl::Status CuptiStatus(const CuptiApi& api, CUptiResult result, absl::string_view call);

}  // namespace dpipe

#endif  // DPIPE_CORE_CUDA_CUPTI_API_H_

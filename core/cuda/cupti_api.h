// CUPTI: when the GPU ran which kernel and copy.
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

// The same table every time. NotFound says which library is missing, or too old. Thread-safe.
absl::StatusOr<const CuptiApi*> LoadCupti();

// "cuptiActivityEnable: CUPTI_ERROR_...", FailedPrecondition: it needs a driver that allows it.
absl::Status CuptiStatus(const CuptiApi& api, CUptiResult result, absl::string_view call);

}  // namespace dpipe

#endif  // DPIPE_CORE_CUDA_CUPTI_API_H_

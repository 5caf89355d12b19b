// The logs that a run's options ask for.
#ifndef DPIPE_TOOLS_RUN_LOGS_H_
#define DPIPE_TOOLS_RUN_LOGS_H_

#include <cstdint>

#include "core/base/status.h"
#include "tools/training_observer.h"
#include "tools/training_options.h"

namespace dpipe::tools {

// Adds them: JSON lines, MLPerf's format, TensorBoard. Where a run goes on after `first_step`
// steps, files are continued. `init_start_ms`: when the run began to be put together, since 1970.
absl::Status AddRunLogs(const TrainerOptions& options, int64_t first_step, int64_t init_start_ms,
                        TrainingObservers* observers);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_LOGS_H_

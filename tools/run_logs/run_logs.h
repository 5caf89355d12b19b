// Creates the logs that a run's options ask for.
#ifndef DPIPE_TOOLS_RUN_LOGS_RUN_LOGS_H_
#define DPIPE_TOOLS_RUN_LOGS_RUN_LOGS_H_

#include <cstdint>

#include "core/base/status.h"
#include "tools/run_logs/training_observer.h"
#include "tools/training/training_options.h"

namespace dpipe::tools {

// Adds JSON lines, and MLPerf's format and TensorBoard if asked for, to `observers`. If
// `first_step` > 0 the run resumes, and its files are continued. `init_start_ms` is the start of
// the run's preparation, in milliseconds since 1970.
absl::Status AddRunLogs(const TrainerOptions& options, int64_t first_step, int64_t init_start_ms,
                        TrainingObservers* observers);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_LOGS_RUN_LOGS_H_

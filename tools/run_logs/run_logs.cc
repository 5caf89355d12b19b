#include "tools/run_logs/run_logs.h"

#include <utility>

#include "tools/run_logs/mllog.h"
#include "tools/run_logs/tensorboard_log.h"
#include "tools/run_logs/training_log.h"

namespace dpipe::tools {

absl::Status AddRunLogs(const TrainerOptions& options, int64_t first_step, int64_t init_start_ms,
                        TrainingObservers* observers) {
  DPIPE_ASSIGN_OR_RETURN(auto lines, TrainingLog::Create(options.log_path, first_step));
  observers->Add(std::move(lines));
  if (!options.mllog_path.empty()) {
    MlLog::Options mllog;
    mllog.path = options.mllog_path;
    mllog.append = first_step > 0;
    mllog.init_start_ms = init_start_ms;
    mllog.learning_rate = options.setup.optimizer.learning_rate.peak;
    DPIPE_ASSIGN_OR_RETURN(auto log, MlLog::Create(mllog));
    observers->Add(std::move(log));
  }
  if (!options.tensorboard_folder.empty()) {
    DPIPE_ASSIGN_OR_RETURN(auto board,
                           TensorBoardLog::Create(options.tensorboard_folder, first_step));
    observers->Add(std::move(board));
  }
  return absl::OkStatus();
}

}  // namespace dpipe::tools

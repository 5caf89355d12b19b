// Logs a training run for TensorBoard.
#ifndef DPIPE_TOOLS_RUN_LOGS_TENSORBOARD_LOG_H_
#define DPIPE_TOOLS_RUN_LOGS_TENSORBOARD_LOG_H_

#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/report/tensorboard/event_writer.h"
#include "tools/run_logs/training_observer.h"

namespace dpipe::tools {

// Writes
// - per step, the scalars train/loss, train/mean_loss, train/lr, train/images_per_second,
// train/epoch;
// - per evaluation, eval_average/mean and eval_average/q0.05, ... (or eval_trained);
// - per grid, the picture "samples";
// - at the start, the text "config".
class TensorBoardLog : public TrainingObserver {
 public:
  // `first_step`: the number of steps done before, if the run resumes.
  static absl::StatusOr<std::unique_ptr<TensorBoardLog>> Create(const std::string& folder,
                                                                int64_t first_step);

  void OnStart(const RunStart& start) override;
  void OnStep(const StepReport& step) override;
  void OnEvaluation(const EvaluationReport& evaluation) override;
  void OnSamples(const SamplesReport& samples) override;
  absl::Status Flush() override;

  const std::string& path() const { return writer_->path(); }

 private:
  explicit TensorBoardLog(std::unique_ptr<report::tensorboard::EventWriter> writer)
      : writer_(std::move(writer)) {}

  const std::unique_ptr<report::tensorboard::EventWriter> writer_;
  absl::Status status_;  // of pictures that could not be encoded, until Flush returns it
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_LOGS_TENSORBOARD_LOG_H_

// The log of a training run as a file of JSON lines, and a running mean of the loss.
#ifndef DPIPE_TOOLS_RUN_LOGS_TRAINING_LOG_H_
#define DPIPE_TOOLS_RUN_LOGS_TRAINING_LOG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/base/files/append_file.h"
#include "core/base/status.h"
#include "tools/run_logs/training_observer.h"

namespace dpipe::tools {

// A mean in which a value i steps ago has the weight decay^i. Unbiased from the first value on.
class RunningMean {
 public:
  explicit RunningMean(double decay) : decay_(decay) {}

  void Add(double value);
  double mean() const { return weight_ > 0 ? sum_ / weight_ : 0; }
  // State to store and restore when a run resumes.
  double sum() const { return sum_; }
  double weight() const { return weight_; }
  void Restore(double sum, double weight) { sum_ = sum, weight_ = weight; }

 private:
  const double decay_;
  double sum_ = 0;
  double weight_ = 0;
};

// Writes one line per step, evaluation or grid of samples. Their keys tell them apart:
//   {"step":1,"loss":1.1,"mean_loss":1.0,"grad_norm":0.8,"lr":1e-05,"images_per_second":98.2,
//    "step_s":0.08,"elapsed_s":0.3,"epoch":0.002,"peak_memory_bytes":[9100000,8700000]}
//     on one line. GPUs whose peak is known add "share_of_peak"; grad_norm is missing if the plan
//     does not compute it.
//   {"step":500,"eval_loss":0.61,"weights":"average","quantiles":[0.1,0.9],"eval_losses":[1.1,0.12]}
//   {"step":500,"samples":"out/train/samples/step_000500.png"}
class TrainingLog : public TrainingObserver {
 public:
  // Replaces the file and creates its folder. If the run resumes after `first_step` steps, keeps
  // the lines of those steps. Returns Unavailable if the file cannot be written.
  static absl::StatusOr<std::unique_ptr<TrainingLog>> Create(const std::string& path,
                                                             int64_t first_step = 0);

  void OnStep(const StepReport& step) override;
  void OnEvaluation(const EvaluationReport& evaluation) override;
  void OnSamples(const SamplesReport& samples) override;
  absl::Status Flush() override;

 private:
  explicit TrainingLog(std::unique_ptr<AppendFile> file) : file_(std::move(file)) {}

  const std::unique_ptr<AppendFile> file_;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_LOGS_TRAINING_LOG_H_

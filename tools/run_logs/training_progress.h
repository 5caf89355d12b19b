// The progress line of a training run.
#ifndef DPIPE_TOOLS_RUN_LOGS_TRAINING_PROGRESS_H_
#define DPIPE_TOOLS_RUN_LOGS_TRAINING_PROGRESS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/time.h"
#include "core/report/progress.h"
#include "tools/run_logs/training_observer.h"

namespace dpipe::tools {

// Estimates the remaining time from the first step on, without the preparation.
class TrainingProgress : public TrainingObserver {
 public:
  // `time_limit_ns`: the limit that may end training before its last step; 0: none.
  TrainingProgress(const report::Progress::Options& progress, Nanos time_limit_ns)
      : options_(progress), time_limit_ns_(time_limit_ns) {}

  void OnStart(const RunStart& start) override;
  void OnStep(const StepReport& step) override;
  void OnEnd(const RunEnd& end) override;

 private:
  const report::Progress::Options options_;
  const Nanos time_limit_ns_;
  int64_t first_step_ = 0;
  int64_t num_steps_ = 0;
  std::unique_ptr<report::Progress> progress_;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_LOGS_TRAINING_PROGRESS_H_

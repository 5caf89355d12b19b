// Progress lines of a training run.
#ifndef DPIPE_TOOLS_RUN_LOGS_TRAINING_PROGRESS_H_
#define DPIPE_TOOLS_RUN_LOGS_TRAINING_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/time.h"
#include "core/report/progress.h"
#include "tools/run_logs/training_observer.h"

namespace dpipe::tools {

// Work between two steps that may take long: an evaluation, a grid of samples.
//
// Shows progress once the work has taken a few seconds, and says if it should stop.
// Thread-safe.
class LongTask {
 public:
  // `phase` names the work; `num_images` is the number of images that it covers.
  LongTask(const report::Progress::Options& options, const std::string& phase, int num_images,
           std::function<bool()> should_stop)
      : options_(options),
        phase_(phase),
        num_images_(num_images),
        should_stop_(std::move(should_stop)),
        start_ns_(options.clock()),
        progress_(options) {}

  void OnProgress(double share_done);
  bool should_stop() const { return should_stop_ != nullptr && should_stop_(); }

 private:
  const report::Progress::Options options_;
  const std::string phase_;
  const int num_images_;
  const std::function<bool()> should_stop_;
  const Nanos start_ns_;
  absl::Mutex mutex_;
  report::Progress progress_ ABSL_GUARDED_BY(mutex_);
};

// The progress line of a training run.
//
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

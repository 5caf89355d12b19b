// Work between two steps that may take long: an evaluation, a grid of samples.
#ifndef DPIPE_TOOLS_RUN_LOGS_LONG_TASK_H_
#define DPIPE_TOOLS_RUN_LOGS_LONG_TASK_H_

#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/time.h"
#include "core/report/progress.h"

namespace dpipe::tools {

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

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_LOGS_LONG_TASK_H_

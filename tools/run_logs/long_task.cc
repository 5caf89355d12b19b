#include "tools/run_logs/long_task.h"

namespace dpipe::tools {
namespace {

// Shorter tasks show no progress.
constexpr Nanos kShownAfterNs = 2 * kNanosPerSecond;

}  // namespace

void LongTask::OnProgress(double share_done) {
  absl::MutexLock lock(&mutex_);
  const Nanos elapsed = options_.clock() - start_ns_;
  if (elapsed < kShownAfterNs) return;
  report::ProgressState state;
  state.phase = phase_;
  state.images_per_second = share_done * num_images_ * kNanosPerSecond / elapsed;
  state.fraction_done = share_done;
  progress_.Update(state);
}

}  // namespace dpipe::tools

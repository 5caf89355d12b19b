// Combines the ranks' reports of each step. For LocalSession only.
#ifndef DPIPE_CORE_RUNTIME_SESSION_STEP_CLOCK_H_
#define DPIPE_CORE_RUNTIME_SESSION_STEP_CLOCK_H_

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/time.h"
#include "core/runtime/interpreter/rank_executor.h"
#include "core/runtime/session/local_session.h"
#include "core/runtime/session/step_sink.h"

namespace dpipe {

// A step is over when its last rank is done. The reporting thread, a rank's or one that listens to
// other processes, never waits for the session's owner: a separate thread calls `on_step`.
class StepClock : public StepSink {
 public:
  // `on_step` may be empty, and outlives this. `now_ns`, here and below, is on the session's clock.
  StepClock(int64_t first_step, int num_steps, int num_ranks, int num_backbones, int global_batch,
            Nanos now_ns, const std::function<void(const StepResult&)>& on_step);
  // Blocks until all finished steps have been reported.
  ~StepClock() override;
  StepClock(const StepClock&) = delete;
  StepClock& operator=(const StepClock&) = delete;

  void RankDone(int64_t step, const std::vector<StepLosses>& losses, const StepOutcome& outcome,
                const RankPeak& memory, Nanos now_ns) override;
  void Restart(Nanos now_ns) override;

  // Return the results and start times of the steps. Call these after every rank is done.
  std::vector<StepResult> results() const;
  std::vector<Nanos> step_starts() const;

 private:
  struct Pending {
    int ranks_done = 0;
    Nanos end_ns = 0;                        // of the latest of them
    std::vector<std::vector<float>> losses;  // by backbone and sample
    std::vector<int64_t> peak_bytes;         // by rank
  };
  void ReportSteps();

  const int64_t first_step_;
  const int num_ranks_;
  const std::function<void(const StepResult&)>& on_step_;
  mutable absl::Mutex mutex_;
  Nanos last_end_ns_ ABSL_GUARDED_BY(mutex_);
  std::vector<Pending> steps_ ABSL_GUARDED_BY(mutex_);
  std::vector<StepResult> results_ ABSL_GUARDED_BY(mutex_);
  std::vector<Nanos> starts_ ABSL_GUARDED_BY(mutex_);
  size_t num_reported_ ABSL_GUARDED_BY(mutex_) = 0;  // of results_
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread reporter_;  // if there is an on_step
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_SESSION_STEP_CLOCK_H_

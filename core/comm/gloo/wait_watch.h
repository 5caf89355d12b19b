// Ends waits that exceed their deadline, and all waits once the job has failed.
#ifndef DPIPE_CORE_COMM_GLOO_WAIT_WATCH_H_
#define DPIPE_CORE_COMM_GLOO_WAIT_WATCH_H_

#include <atomic>
#include <functional>
#include <list>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/status.h"

namespace dpipe {

// Thread-safe. Has a thread that watches the time. Only time in which this process runs counts.
class WaitWatch {
 public:
  struct Wait {
    absl::Duration deadline;
    std::function<void()> abort;  // makes the wait return; called on the watch's thread, or Fail's
    absl::Duration waited;
    bool expired = false;
  };
  using WaitId = std::list<Wait>::iterator;

  WaitWatch();
  ~WaitWatch();
  WaitWatch(const WaitWatch&) = delete;
  WaitWatch& operator=(const WaitWatch&) = delete;

  // Starts watching a wait. Returns the failure, if there has been one.
  absl::StatusOr<WaitId> Begin(absl::Duration deadline, std::function<void()> abort);
  // Stops watching the wait and returns its final state. It is not aborted afterwards.
  Wait End(WaitId wait);

  // Ends all current and future waits. Only the first status counts.
  void Fail(const absl::Status& status);
  absl::Status failure() const;

 private:
  void Loop();

  mutable absl::Mutex mutex_;
  std::list<Wait> waits_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_GLOO_WAIT_WATCH_H_

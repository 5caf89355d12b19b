// Turns blocking collectives into asynchronous ones, for transports that have no streams for them.
#ifndef DPIPE_CORE_COMM_COLLECTIVE_THREAD_H_
#define DPIPE_CORE_COMM_COLLECTIVE_THREAD_H_

#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"

namespace dpipe {

// Runs collectives one after another, in the order in which they were started, on a separate
// thread. The first Start creates the thread, which may use the same cores as the caller of Start.
// A thread that waits for a collective that has not begun runs it itself, after those queued before
// it.
class CollectiveThread {
 public:
  CollectiveThread() = default;
  // Waits for the collective in progress, so abort first what that collective waits for. Queued
  // collectives never run.
  ~CollectiveThread();
  CollectiveThread(const CollectiveThread&) = delete;
  CollectiveThread& operator=(const CollectiveThread&) = delete;

  // Queues `collective`, which may block and must keep alive what it needs. The returned handle
  // must not outlive this.
  std::unique_ptr<PendingCollective> Start(std::function<absl::Status()> collective);

 private:
  struct Task {
    std::function<absl::Status()> run;  // emptied after it has run
    bool done = false;
    absl::Status status;
    Nanos end_ns = 0;
  };
  class Pending;

  void Loop();
  // Runs the first queued task. The mutex is held before and after, but not while the task runs.
  void RunFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WaitFor(Task* task);

  absl::Mutex mutex_;
  std::deque<std::shared_ptr<Task>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_COLLECTIVE_THREAD_H_

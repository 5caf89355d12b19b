// Makes collectives that can be started and waited for out of ones that block: for transports that
// have no streams for them.
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

// Runs what is started one after another, in the order of starting, on a separate thread: it is
// made by the first Start, on the cores that the thread which calls that may use. Who waits for a
// collective that is not under way yet runs it, and those before it, instead of that thread.
class CollectiveThread {
 public:
  CollectiveThread() = default;
  // Ends once the collective that is under way has: abort what it waits for first. Those that have
  // not begun never do.
  ~CollectiveThread();
  CollectiveThread(const CollectiveThread&) = delete;
  CollectiveThread& operator=(const CollectiveThread&) = delete;

  // `collective` blocks, and keeps alive what it needs. What is returned must not outlive this.
  std::unique_ptr<PendingCollective> Start(std::function<absl::Status()> collective);

 private:
  struct Task {
    std::function<absl::Status()> run;  // emptied once it has
    bool done = false;
    absl::Status status;
    Nanos end_ns = 0;
  };
  class Pending;

  void Loop();
  // Runs the first task that waits, with the mutex held before and after but not meanwhile.
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

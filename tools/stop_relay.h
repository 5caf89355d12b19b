// In a run of several processes the first decides when to stop. A wish to stop may come to any of
// them: schedulers signal whom they like.
#ifndef DPIPE_TOOLS_STOP_RELAY_H_
#define DPIPE_TOOLS_STOP_RELAY_H_

#include <atomic>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/stop_request.h"
#include "core/comm/rendezvous/process_group.h"

namespace dpipe::tools {

// Of a process that follows: the first signal to stop that it gets is told to the first process,
// and does nothing else. `processes` outlives this.
class StopSender {
 public:
  explicit StopSender(ProcessGroup* processes);
  ~StopSender();
  StopSender(const StopSender&) = delete;
  StopSender& operator=(const StopSender&) = delete;

 private:
  ProcessGroup* const processes_;
  StopRequest request_;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

// Of the first process: acknowledges the wish on standard error. `processes` outlives this.
class StopReceiver {
 public:
  explicit StopReceiver(ProcessGroup* processes);
  ~StopReceiver();
  StopReceiver(const StopReceiver&) = delete;
  StopReceiver& operator=(const StopReceiver&) = delete;

  // "SIGTERM to rank 2 (pid 4711 on node1)"; empty where there is no such wish.
  std::string wish() const;

 private:
  ProcessGroup* const processes_;
  mutable absl::Mutex mutex_;
  std::string wish_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_STOP_RELAY_H_

// Relays requests to stop. Process 0 of a run decides when to stop, but schedulers may send the
// signal to any process.
#ifndef DPIPE_TOOLS_RUN_CONTROL_STOP_RELAY_H_
#define DPIPE_TOOLS_RUN_CONTROL_STOP_RELAY_H_

#include <atomic>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/host/stop_request.h"
#include "core/comm/rendezvous/process_group.h"

namespace dpipe::tools {

// In a follower process, forwards the first stop signal to process 0, and ignores it otherwise.
// `processes` outlives this.
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

// In process 0, receives the request and acknowledges it on standard error. `processes` outlives
// this.
class StopReceiver {
 public:
  explicit StopReceiver(ProcessGroup* processes);
  ~StopReceiver();
  StopReceiver(const StopReceiver&) = delete;
  StopReceiver& operator=(const StopReceiver&) = delete;

  // Returns "SIGTERM to rank 2 (pid 4711 on node1)", or "" if there is no request.
  std::string request() const;

 private:
  ProcessGroup* const processes_;
  mutable absl::Mutex mutex_;
  std::string request_text_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_CONTROL_STOP_RELAY_H_

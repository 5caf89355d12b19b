// Requests to stop a run: signals to any of its processes, and files.
#ifndef DPIPE_TOOLS_RUN_CONTROL_RUN_STOP_H_
#define DPIPE_TOOLS_RUN_CONTROL_RUN_STOP_H_

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/host/stop_request.h"
#include "core/comm/rendezvous/process_group.h"
#include "tools/training/training_options.h"

namespace dpipe::tools {

// Relays requests to stop. Process 0 of a run decides when to stop, but schedulers may send the
// signal to any process.

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

// Signal files, by which a person or a scheduler controls a run (see core/train/training_loop.h).
// They are placed in the run's folder or beside its checkpoints.

// True if either place has a file of that name. Removes it.
bool TakeRunSignal(const TrainerOptions& options, const char* name);

// Removes all signal files and reports each to `say`: they were meant for an earlier run, or came
// too late for this one. Call it once this run owns the checkpoints' folder, and at the end.
void DropRunSignals(const TrainerOptions& options,
                    const std::function<void(const std::string& line)>& say);

// The reason why a training run must stop early: a signal to this process or to another of the run,
// or the file STOP.
//
// Lives in the leading process. Thread-safe.
class RunStop {
 public:
  // Catches signals from here on, and acknowledges each request on standard error. `others`
  // receives requests from the other processes, or is null. Both arguments outlive this.
  RunStop(const TrainerOptions& options, const StopReceiver* others)
      : options_(options), others_(others) {}

  // Says what a signal does from here on: it ends the run after a step. Until then it ends the
  // preparation, before anything is written.
  void BeginSteps() { request_.Acknowledge(kStopAcknowledgment); }
  // True if a signal to this process has arrived. Reads no files.
  bool has_signal() const { return request_.signal() != nullptr; }
  bool is_requested() { return !reason().empty(); }
  // Returns "SIGINT", "SIGTERM to rank 2 (pid 4711 on node1)" or "the file STOP", or "" if no stop
  // was requested.
  std::string reason();

 private:
  const TrainerOptions& options_;
  const StopReceiver* const others_;
  StopRequest request_{"ending before the first step; a second signal ends at once"};
  absl::Mutex mutex_;
  bool stop_file_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_CONTROL_RUN_STOP_H_

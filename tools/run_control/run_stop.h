// The reason why a training run must stop early: a signal to this process or to another of the run,
// or the file STOP.
#ifndef DPIPE_TOOLS_RUN_CONTROL_RUN_STOP_H_
#define DPIPE_TOOLS_RUN_CONTROL_RUN_STOP_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/host/stop_request.h"
#include "tools/run_control/stop_relay.h"
#include "tools/training/training_options.h"

namespace dpipe::tools {

// Lives in the leading process. Thread-safe.
class RunStop {
 public:
  // Catches signals from here on, and acknowledges each request on standard error. `others`
  // receives requests from the other processes, or is null. Both arguments outlive this.
  RunStop(const TrainerOptions& options, const StopReceiver* others)
      : options_(options), others_(others) {}

  bool is_requested() { return !reason().empty(); }
  // Returns "SIGINT", "SIGTERM to rank 2 (pid 4711 on node1)" or "the file STOP", or "" if no stop
  // was requested.
  std::string reason();

 private:
  const TrainerOptions& options_;
  const StopReceiver* const others_;
  const StopRequest request_{kStopAcknowledgment};
  absl::Mutex mutex_;
  bool stop_file_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_CONTROL_RUN_STOP_H_

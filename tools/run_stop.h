// Why a training run is to stop before its end: a signal, one to another of its processes, or the
// file STOP.
#ifndef DPIPE_TOOLS_RUN_STOP_H_
#define DPIPE_TOOLS_RUN_STOP_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/stop_request.h"
#include "tools/stop_relay.h"
#include "tools/training_options.h"

namespace dpipe::tools {

// Of the process that leads. Thread-safe.
class RunStop {
 public:
  // From now on signals are caught; each wish is acknowledged on standard error. `others`: of
  // several processes. Both outlive this.
  RunStop(const TrainerOptions& options, const StopReceiver* others)
      : options_(options), others_(others) {}

  bool is_requested() { return !reason().empty(); }
  // "SIGINT", "SIGTERM to rank 2 (pid 4711 on node1)", "the file STOP"; empty where there is none.
  std::string reason();

 private:
  const TrainerOptions& options_;
  const StopReceiver* const others_;
  const StopRequest request_{kStopAcknowledgment};
  absl::Mutex mutex_;
  bool stop_file_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_STOP_H_

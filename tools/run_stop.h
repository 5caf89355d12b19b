// Why a training run is to stop before its end: a signal, one to another of its processes, or the
// file STOP.
#ifndef DPIPE_TOOLS_RUN_STOP_H_
#define DPIPE_TOOLS_RUN_STOP_H_

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/stop_request.h"
#include "tools/stop_relay.h"

namespace dpipe::tools {

// Of the process that leads. Thread-safe.
class RunStop {
 public:
  // From now on signals are caught; each wish is acknowledged on standard error. STOP may be in any
  // of `folders`. `others`: of several processes; outlives this.
  RunStop(const std::vector<std::string>& folders, const StopReceiver* others)
      : folders_(folders), others_(others) {}

  bool is_requested() { return !reason().empty(); }
  // "SIGINT", "SIGTERM to rank 2 (pid 4711 on node1)", "the file STOP"; empty where there is none.
  std::string reason();

 private:
  const std::vector<std::string> folders_;
  const StopReceiver* const others_;
  const StopRequest request_{kStopAcknowledgment};
  absl::Mutex mutex_;
  bool stop_file_ ABSL_GUARDED_BY(mutex_) = false;
};

// Whether one of the folders had the file, which is removed.
bool TakeSignalFileOf(const std::vector<std::string>& folders, const char* name);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_STOP_H_

#include "tools/run_control/run_stop.h"

#include <cstdio>

#include "core/train/training_loop.h"
#include "tools/run_control/run_signals.h"

namespace dpipe::tools {

std::string RunStop::reason() {
  if (request_.signal() != nullptr) return request_.signal();
  if (others_ != nullptr) {
    const std::string request = others_->request();
    if (!request.empty()) return request;
  }
  absl::MutexLock lock(&mutex_);
  if (!stop_file_ && TakeRunSignal(options_, kStopFile)) {
    stop_file_ = true;
    std::fprintf(stderr, "the file %s: saving, then exiting\n", kStopFile);
  }
  return stop_file_ ? "the file STOP" : "";
}

}  // namespace dpipe::tools

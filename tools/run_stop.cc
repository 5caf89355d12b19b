#include "tools/run_stop.h"

#include <cstdio>

#include "core/train/signal_files.h"

namespace dpipe::tools {

std::string RunStop::reason() {
  if (request_.signal() != nullptr) return request_.signal();
  if (others_ != nullptr) {
    const std::string wish = others_->wish();
    if (!wish.empty()) return wish;
  }
  absl::MutexLock lock(&mutex_);
  if (!stop_file_ && TakeSignalFileOf(folders_, kStopFile)) {
    stop_file_ = true;
    std::fprintf(stderr, "the file %s: saving and ending\n", kStopFile);
  }
  return stop_file_ ? "the file STOP" : "";
}

bool TakeSignalFileOf(const std::vector<std::string>& folders, const char* name) {
  bool taken = false;
  for (const std::string& folder : folders) taken |= TakeSignalFile(folder, name);
  return taken;
}

}  // namespace dpipe::tools

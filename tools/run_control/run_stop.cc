#include "tools/run_control/run_stop.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/train/training_loop.h"

namespace dpipe::tools {

namespace {

constexpr char kNote[] = "stop";
constexpr absl::Duration kTick = absl::Milliseconds(100);

}  // namespace

StopSender::StopSender(ProcessGroup* processes) : processes_(processes) {
  thread_ = std::thread([this] {
    while (!ending_ && request_.signal() == nullptr) absl::SleepFor(kTick);
    if (request_.signal() == nullptr) return;
    StoreClient& store = processes_->store();
    // If the store is gone, the job has failed, and other code reports that.
    store
        .SendNote(0, kNote,
                  absl::StrCat(request_.signal(), " to ", store.NameOf(processes_->process())))
        .IgnoreError();
  });
}

StopSender::~StopSender() {
  ending_ = true;
  thread_.join();
}

StopReceiver::StopReceiver(ProcessGroup* processes) : processes_(processes) {
  processes_->store().OnNote(kNote, [this](const std::string& request) {
    absl::MutexLock lock(&mutex_);
    request_text_ = request;
    // A launcher signals all processes; one acknowledgment is enough.
    if (!SignalWasNoted()) std::fprintf(stderr, "%s: %s\n", request.c_str(), kStopAcknowledgment);
  });
}

StopReceiver::~StopReceiver() { processes_->store().OnNote(kNote, nullptr); }

std::string StopReceiver::request() const {
  absl::MutexLock lock(&mutex_);
  return request_text_;
}

bool TakeRunSignal(const TrainerOptions& options, const char* name) {
  const bool in_out = TakeSignalFile(options.out, name);
  return TakeSignalFile(options.checkpoints.folder, name) || in_out;
}

void DropRunSignals(const TrainerOptions& options,
                    const std::function<void(const std::string& line)>& say) {
  for (const char* name : {kStopFile, kSaveNowFile}) {
    if (!TakeRunSignal(options, name)) continue;
    say(absl::StrCat("Note:     removed the file ", name, ", which no longer applies"));
  }
}

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

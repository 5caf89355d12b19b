#include "tools/run_control/stop_relay.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

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

}  // namespace dpipe::tools

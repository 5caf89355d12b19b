#include "core/comm/nccl/nccl_failure.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/running_clock.h"

namespace dpipe {

NcclFailure::NcclFailure(Rank rank, cuda::CudaDevice* device, const RankStreams* streams,
                         std::shared_ptr<NcclPeers> peers)
    : rank_(rank), device_(*device), streams_(*streams), peers_(std::move(peers)) {}

void NcclFailure::JoinPeers() {
  peers_->Join({[this](const absl::Status& status) { OnPeerFailure(status); },
                [this] { return streams_.Idle(); }});
}

void NcclFailure::Watch(absl::Duration deadline) {
  const absl::Duration interval =
      std::max(absl::Milliseconds(1), std::min(absl::Milliseconds(50), deadline / 32));
  watch_ = std::thread([this, interval] { WatchLoop(interval); });
}

void NcclFailure::StopWatching() {
  stopping_ = true;
  if (watch_.joinable()) watch_.join();
}

void NcclFailure::WatchLoop(absl::Duration interval) {
  device_.driver().MakeCurrent({device_.context().gpu, 0, nullptr}).IgnoreError();
  RunningClock clock(2 * interval);
  while (!stopping_) {
    // Not a timed wait on a condition, which would end at a time of day.
    absl::SleepFor(interval);
    const absl::Duration passed = clock.Lap();
    for (CommStream* stream : streams_.all()) {
      const absl::Status status = stream->CheckProgress(passed);
      if (!status.ok()) Fail(Reason(WithRankPrefix(status)));
    }
  }
}

void NcclFailure::Fail(const absl::Status& status) {
  if (End(status, /*explained=*/true)) peers_->Tell(status);
}

void NcclFailure::OnPeerFailure(const absl::Status& status) { End(status, /*explained=*/false); }

bool NcclFailure::End(const absl::Status& status, bool explained) {
  absl::Status kept = status;
  {
    absl::MutexLock lock(&mutex_);
    if (!status_.ok()) return false;
    const std::optional<CommStream::Wait> wait = CloseStreams();
    if (!explained && wait.has_value()) {
      kept = WaitFailed(wait->what, wait->waited, status);
      explained = true;
    }
    status_ = kept;
    explained_ = explained;
  }
  device_.Keep(kept);
  // Ends the waits of the GPU and of all threads.
  CommStream::AbortAll(streams_.all());
  return true;
}

// Returns what the GPU waits for, since its thread may be at a later instruction. Of several waits
// it returns the longest; of waits that have not begun yet, the first.
std::optional<CommStream::Wait> NcclFailure::CloseStreams() {
  std::optional<CommStream::Wait> longest;
  for (CommStream* stream : streams_.all()) {
    std::optional<CommStream::Wait> wait = stream->Close();
    if (!wait.has_value()) continue;
    if (longest.has_value() &&
        std::pair(wait->begun, wait->waited) <= std::pair(longest->begun, longest->waited)) {
      continue;
    }
    longest = std::move(wait);
  }
  return longest;
}

absl::Status NcclFailure::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

absl::Status NcclFailure::StatusOf(const std::string& what) const {
  absl::MutexLock lock(&mutex_);
  return status_.ok() || explained_ ? status_ : WaitFailed(what, absl::ZeroDuration(), status_);
}

absl::Status NcclFailure::Reason(const absl::Status& status) {
  if (absl::IsUnavailable(status) && this->status().ok()) {
    const absl::Status cause = peers_->Cause();
    if (!cause.ok()) OnPeerFailure(cause);
  }
  const absl::Status reason = this->status();
  return reason.ok() ? status : reason;
}

absl::Status NcclFailure::ReasonOf(const std::string& what, const absl::Status& status) {
  const absl::Status reason = Reason(WithRankPrefix(status)), failed = StatusOf(what);
  return failed.ok() ? reason : failed;
}

absl::Status NcclFailure::WithRankPrefix(const absl::Status& status) const {
  return absl::Status(status.code(), absl::StrCat("rank ", rank_.value(), " ", status.message()));
}

absl::Status NcclFailure::WaitFailed(const std::string& what, absl::Duration waited,
                                     const absl::Status& reason) const {
  return WithRankPrefix(absl::Status(
      reason.code(),
      absl::StrCat("waited ", absl::FormatDuration(absl::Trunc(waited, absl::Milliseconds(1))),
                   " for ", what, ": ", reason.message())));
}

}  // namespace dpipe

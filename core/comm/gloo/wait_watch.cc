#include "core/comm/gloo/wait_watch.h"

#include <utility>

#include "absl/time/clock.h"
#include "core/base/running_clock.h"

namespace dpipe {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(20);

}  // namespace

WaitWatch::WaitWatch() {
  thread_ = std::thread([this] { Loop(); });
}

WaitWatch::~WaitWatch() {
  stopping_ = true;
  thread_.join();
}

absl::StatusOr<WaitWatch::WaitId> WaitWatch::Begin(absl::Duration deadline,
                                                   std::function<void()> abort) {
  absl::MutexLock lock(&mutex_);
  if (!failure_.ok()) return failure_;
  return waits_.insert(waits_.end(), Wait{deadline, std::move(abort), absl::ZeroDuration(), false});
}

WaitWatch::Wait WaitWatch::End(WaitId wait) {
  absl::MutexLock lock(&mutex_);
  Wait ended = std::move(*wait);
  waits_.erase(wait);
  return ended;
}

void WaitWatch::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (!failure_.ok()) return;
  failure_ = status;
  for (Wait& wait : waits_) wait.abort();
}

absl::Status WaitWatch::failure() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

void WaitWatch::Loop() {
  RunningClock clock(5 * kTick);
  while (!stopping_) {
    // Not a wait on the mutex, which ends at a time of day.
    absl::SleepFor(kTick);
    const absl::Duration lap = clock.Lap();
    absl::MutexLock lock(&mutex_);
    for (Wait& wait : waits_) {
      wait.waited += lap;
      if (wait.expired || wait.waited < wait.deadline) continue;
      wait.expired = true;
      wait.abort();
    }
  }
}

}  // namespace dpipe

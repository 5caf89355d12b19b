#include "core/comm/gloo/wait_watch.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace dpipe {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(20);

}  // namespace

WaitWatch::WaitWatch() {
  thread_ = std::thread([this] { Loop(); });
}

WaitWatch::~WaitWatch() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
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
  absl::MutexLock lock(&mutex_);
  absl::Time last = absl::Now();
  while (!stopping_) {
    mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kTick);
    const absl::Time now = absl::Now();
    // A longer gap is one in which this process did not run.
    const absl::Duration lap = std::min(now - std::exchange(last, now), 5 * kTick);
    for (Wait& wait : waits_) {
      wait.waited += lap;
      if (wait.expired || wait.waited < wait.deadline) continue;
      wait.expired = true;
      wait.abort();
    }
  }
}

}  // namespace dpipe

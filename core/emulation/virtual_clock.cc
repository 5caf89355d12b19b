#include "core/emulation/virtual_clock.h"

#include <time.h>

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/host/processor_time.h"

namespace dpipe {
namespace {

// Sleeping ends some tens of microseconds late, so the rest is a spin-wait.
constexpr Nanos kSpin = 80 * kNanosPerMicro;

void WaitUntilReal(Nanos due) {
  while (true) {
    const Nanos left = due - MonotonicNow();
    if (left <= 0) return;
    if (left <= kSpin) continue;
    const Nanos sleep = left - kSpin;
    const timespec length = {static_cast<time_t>(sleep / kNanosPerSecond),
                             static_cast<long>(sleep % kNanosPerSecond)};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &length, nullptr);
  }
}

}  // namespace

VirtualClock::VirtualClock(int num_ranks, const VirtualClockOptions& options) : options_(options) {
  for (int r = 0; r < num_ranks; ++r) ranks_.push_back(std::make_unique<RankState>());
}

void VirtualClock::StartRun() {
  absl::MutexLock lock(&mutex_);
  DPIPE_CHECK(num_running_ == 0 && due_.empty()) << "a run has not ended";
  stuck_ = false;
  real_ns_ = MonotonicNow();
  for (size_t r = 0; r < ranks_.size(); ++r) {
    ranks_[r]->phase = Phase::kScheduled;
    Schedule(static_cast<int>(r), now_ns_);
  }
  Advance();
}

void VirtualClock::Enter(int rank) {
  absl::MutexLock lock(&mutex_);
  RankState& state = *ranks_[rank];
  while (state.phase != Phase::kRunning) state.wake.Wait(&mutex_);
  Continue(&state, now_ns_);
}

void VirtualClock::Leave(int rank) {
  absl::MutexLock lock(&mutex_);
  DPIPE_CHECK(ranks_[rank]->phase == Phase::kRunning) << "rank " << rank;
  ranks_[rank]->phase = Phase::kDone;
  if (--num_running_ == 0) Advance();
}

Nanos VirtualClock::Now(int rank) const {
  RankState& state = *ranks_[rank];
  if (!options_.charge_host_time || state.phase != Phase::kRunning) return state.now;
  return state.now + (ThreadProcessorTime() - state.host_mark);
}

void VirtualClock::SleepUntil(int rank, Nanos due) {
  absl::MutexLock lock(&mutex_);
  RankState& state = *ranks_[rank];
  if (due > now_ns_) {
    Schedule(rank, due);
    Await(rank, Phase::kScheduled);
  }
  Continue(&state, std::max(due, state.now));
}

bool VirtualClock::Park(int rank) {
  RankState& state = *ranks_[rank];
  const Nanos came = Now(rank);
  Await(rank, Phase::kParked);
  Continue(&state, std::max(came, now_ns_));
  return !stuck_;
}

void VirtualClock::Continue(RankState* state, Nanos now) {
  state->now = now;
  if (options_.charge_host_time) state->host_mark = ThreadProcessorTime();
}

void VirtualClock::Await(int rank, Phase phase) {
  RankState& state = *ranks_[rank];
  state.phase = phase;
  if (--num_running_ == 0) Advance();
  while (state.phase != Phase::kRunning) state.wake.Wait(&mutex_);
}

void VirtualClock::Wake(int rank, Nanos at) {
  if (ranks_[rank]->phase != Phase::kParked) return;
  ranks_[rank]->phase = Phase::kScheduled;
  Schedule(rank, at);
  // Called from outside, while no rank runs.
  if (num_running_ == 0) Advance();
}

void VirtualClock::Schedule(int rank, Nanos due) { due_.push({std::max(due, now_ns_), rank}); }

void VirtualClock::Resume(int rank) {
  ranks_[rank]->phase = Phase::kRunning;
  ++num_running_;
  ranks_[rank]->wake.Signal();
}

void VirtualClock::Advance() {
  if (advancing_) return;
  if (due_.empty()) {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r]->phase != Phase::kParked) continue;
      stuck_ = true;
      Resume(static_cast<int>(r));
    }
    return;
  }
  const Nanos next = due_.top().first;
  if (next > now_ns_) Pace(next);
  now_ns_ = next;
  do {
    const int rank = due_.top().second;
    due_.pop();
    Resume(rank);
  } while (!options_.repeatable && !due_.empty() && due_.top().first <= now_ns_);
}

// No rank runs in the meantime, so the only possible event is a Wake from outside.
void VirtualClock::Pace(Nanos due) {
  if (options_.time_scale <= 0) return;
  const Nanos length = std::llround(static_cast<double>(due - now_ns_) * options_.time_scale);
  const Nanos target = real_ns_ + length;
  advancing_ = true;
  mutex_.Unlock();
  WaitUntilReal(target);
  const Nanos now = MonotonicNow();
  mutex_.Lock();
  advancing_ = false;
  const Nanos lateness = now - target;
  total_lateness_ns_ += lateness;
  worst_lateness_ns_ = std::max(worst_lateness_ns_, lateness);
  real_ns_ = now;
}

}  // namespace dpipe

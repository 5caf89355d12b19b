#include "core/comm/in_process_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/host/usable_cpus.h"
#include "core/tensor/device.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dpipe::internal {
namespace {

// Leaves the core's other hardware thread, if any, as many resources as a spinning thread can.
void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void InProcessState::Fail(const absl::Status& status) {
  if (failure.ok()) failure = status;
  ++num_changes;
}

InProcessWaiter::InProcessWaiter(std::shared_ptr<InProcessState> state, int rank)
    : state_(std::move(state)), rank_(rank) {}

SharedCollective* InProcessWaiter::Current() const {
  for (const auto& share : shares_) {
    if (!share->shared->done()) return share->shared.get();
  }
  return nullptr;
}

bool InProcessWaiter::HasWork() const {
  const SharedCollective* const current = Current();
  return current != nullptr && current->HasWork();
}

void InProcessWaiter::Work() {
  SharedCollective* const current = Current();
  if (current == nullptr) return;
  const bool ended = current->RunNextChunk();
  worked_until_ns_ = MonotonicNow();
  if (!ended) return;
  absl::MutexLock lock(&state_->mutex);
  ++state_->num_changes;
}

absl::Status InProcessWaiter::EndFirst() {
  const std::shared_ptr<CollectiveShare> share = shares_.front();
  const SharedCollective& shared = *share->shared;
  const auto what = [&share] { return absl::StrCat(share->what, " from all ranks of its group"); };
  const auto await = [&](const auto& ready, const auto& ready_ns) -> absl::Status {
    const Nanos begin_ns = MonotonicNow();
    {
      absl::MutexLock lock(&state_->mutex);
      DPIPE_RETURN_IF_ERROR(Await(ready, what));
    }
    Observe(begin_ns, ready_ns());
    return absl::OkStatus();
  };
  DPIPE_RETURN_IF_ERROR(
      await([&] { return shared.complete(); }, [&] { return shared.complete_ns(); }));
  DPIPE_RETURN_IF_ERROR(await([&] { return shared.done(); }, [&] { return shared.done_ns(); }));
  share->end_ns = last_end_ns_ = std::max(last_end_ns_, shared.done_ns());
  share->ended = true;
  shares_.pop_front();
  return absl::OkStatus();
}

// Runs on the rank's own thread, which is already pinned if it ever will be.
void InProcessWaiter::LearnCores() {
  if (std::exchange(cores_are_known_, true)) return;
  for (int core : AllowedCores()) {
    if (!state_->cores.insert(core).second) state_->cores_are_shared = true;
  }
  ++state_->num_known_threads;
}

bool InProcessWaiter::MaySpin() const {
  if (state_->options.spin_on_shared_cores) return true;
  return state_->num_known_threads == state_->size && !state_->cores_are_shared;
}

// Releases the mutex while it spins, and returns at the first change. Returns false if another
// program has used the core in the meantime: to keep spinning would slow that program down, and
// also this program's other ranks if the other program spins as well.
bool InProcessWaiter::SpinUntil(Nanos end_ns) {
  constexpr int kPauses = 16;  // about 1 us
  // An estimate: longer than a yield when no thread waits, shorter than a scheduler's time slice.
  constexpr Nanos kTurnOfOthers = 200 * kNanosPerMicro;
  const uint64_t seen = state_->num_changes.load(std::memory_order_relaxed);
  bool core_is_free = true;
  state_->mutex.Unlock();
  Nanos now_ns = MonotonicNow();
  while (state_->num_changes.load(std::memory_order_acquire) == seen && core_is_free &&
         now_ns < end_ns) {
    for (int i = 0; i < kPauses; ++i) Pause();
    state_->options.yield();
    const Nanos before_ns = std::exchange(now_ns, MonotonicNow());
    core_is_free = now_ns - before_ns < kTurnOfOthers;
  }
  state_->mutex.Lock();
  return core_is_free;
}

// The deadline is divided into pieces, so that only time in which this process runs counts. A
// process that was stopped (Ctrl-Z, a debugger, a scheduler) must not find its deadlines passed
// when it resumes.
absl::Status InProcessWaiter::Await(absl::FunctionRef<bool()> ready,
                                    absl::FunctionRef<std::string()> what) {
  constexpr int kPieces = 32;
  const absl::Duration piece = state_->options.deadline / kPieces;
  const auto something = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return !state_->failure.ok() || ready() || HasWork();
  };
  LearnCores();
  Nanos spin_until_ns = 0;
  for (int passed = 0; passed < kPieces;) {
    if (!state_->failure.ok()) return state_->failure;
    if (ready()) return absl::OkStatus();
    if (HasWork()) {
      state_->mutex.Unlock();
      Work();
      state_->mutex.Lock();
      continue;
    }
    const Nanos now_ns = MonotonicNow();
    if (spin_until_ns == 0) {
      spin_until_ns = now_ns + absl::ToInt64Nanoseconds(state_->options.spin);
    }
    if (MaySpin() && now_ns < spin_until_ns) {
      if (!SpinUntil(spin_until_ns)) spin_until_ns = now_ns;
    } else if (!state_->mutex.AwaitWithTimeout(absl::Condition(&something), piece)) {
      ++passed;
    }
  }
  state_->Fail(absl::DeadlineExceededError(
      absl::StrCat("rank ", rank_, " waited ", absl::FormatDuration(state_->options.deadline),
                   " for ", what())));
  return state_->failure;
}

void InProcessWaiter::Observe(Nanos begin_ns, Nanos ready_ns) const {
  WaitObserver* const observer = state_->options.observer;
  if (observer == nullptr) return;
  // Time spent on a chunk of a collective after the wait could have ended counts as work.
  observer->Waited(Rank(rank_), begin_ns, std::max(ready_ns, worked_until_ns_), MonotonicNow());
}

}  // namespace dpipe::internal

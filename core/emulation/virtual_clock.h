// The time of an emulated cluster: one clock for all ranks, which are real threads.
//
// Virtual time stands still while any rank's thread does something. Once every rank waits, it jumps
// to the earliest time at which one of them is to go on. So a host with two cores can stand for
// sixty-four devices that compute at once, and a thread that its scheduler wakes late is not late:
// what a rank does next begins at the virtual time at which it was to begin. Which rank waits for
// which, and in what order they come, is decided by the threads themselves.
//
// Where a time scale is given, a jump also takes real time: no wait is shorter than its virtual
// length times the scale, to a few microseconds, and one that ends late does not shorten the next.
#ifndef DPIPE_CORE_EMULATION_VIRTUAL_CLOCK_H_
#define DPIPE_CORE_EMULATION_VIRTUAL_CLOCK_H_

#include <functional>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/time.h"

namespace dpipe {

struct VirtualClockOptions {
  // Real time that a unit of virtual time takes at least; 0: as quick as the host can.
  double time_scale = 0;
  // Whether what a rank's thread computes on the host between its waits counts as its time, as
  // measured by the thread's own processor time.
  bool charge_host_time = false;
  // Ranks that go on at the same time do so one after another, by number, so that who comes first
  // to what they share is the same on every run; else all at once, as the host has it.
  bool repeatable = true;
};

class VirtualClock {
 public:
  VirtualClock(int num_ranks, const VirtualClockOptions& options);
  VirtualClock(const VirtualClock&) = delete;
  VirtualClock& operator=(const VirtualClock&) = delete;

  // Before the ranks' threads start: from now on all of them count, until each has left.
  void StartRun();
  // By the rank's own thread: first of all, and last.
  void Enter(int rank);
  void Leave(int rank);

  // ---- For the rank's own thread ----
  // Never before the time at which it last went on.
  Nanos Now(int rank) const;
  // Blocks until the virtual time is `due`, which counts from when this rank last went on: what the
  // host computed since is not charged.
  void SleepUntil(int rank, Nanos due) ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until Wake. False if nothing can wake it any more: all ranks that have not left wait for
  // one another.
  bool Park(int rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // ---- For any thread ----
  // A parked rank goes on at this time, at once if it is over. No effect on others.
  void Wake(int rank, Nanos at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Guards this clock and what its ranks share.
  absl::Mutex& mutex() ABSL_LOCK_RETURNED(mutex_) { return mutex_; }

  // How far the end of a paced wait was behind its real time: the sum over all jumps, and the
  // worst.
  Nanos total_lateness_ns() const { return total_lateness_ns_; }
  Nanos worst_lateness_ns() const { return worst_lateness_ns_; }

 private:
  enum class Phase { kRunning, kParked, kScheduled, kDone };
  struct RankState {
    Phase phase = Phase::kDone;
    absl::CondVar wake;
    // Of the rank's thread alone.
    Nanos now = 0;
    Nanos host_mark = 0;  // the thread's processor time when it went on
  };
  using Due = std::pair<Nanos, int>;  // when, which rank

  // From this time on.
  void GoOn(RankState* state, Nanos now);
  // Waits, in a phase that is not kRunning, until it is.
  void Await(int rank, Phase phase) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Schedule(int rank, Nanos due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Nobody runs: on to the next time at which somebody does.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Pace(Nanos due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Resume(int rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const VirtualClockOptions options_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::priority_queue<Due, std::vector<Due>, std::greater<Due>> due_ ABSL_GUARDED_BY(mutex_);
  int num_running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool advancing_ ABSL_GUARDED_BY(mutex_) = false;
  bool stuck_ ABSL_GUARDED_BY(mutex_) = false;
  Nanos now_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  Nanos real_ns_ = 0;  // the real time that belongs to now_ns_
  Nanos total_lateness_ns_ = 0, worst_lateness_ns_ = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_EMULATION_VIRTUAL_CLOCK_H_

// The time of an emulated cluster: one clock for all ranks, which are real threads.
//
// Virtual time stops while any rank's thread is working. Once every rank waits, it jumps to the
// earliest time at which one of them must resume. So a host with two cores can emulate sixty-four
// devices that compute at once, and a thread that the host's scheduler wakes late is not late: its
// next work begins at the scheduled virtual time. The threads themselves decide which rank waits
// for which, and in what order they arrive.
//
// With a time scale, a jump also takes real time: no wait is shorter than its virtual length times
// the scale, to a few microseconds, and a wait that ends late does not shorten the next one.
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
  // Minimum real time per unit of virtual time; 0: as fast as possible.
  double time_scale = 0;
  // If true, computation of a rank's thread on the host between its waits counts as virtual time,
  // measured by the thread's processor time.
  bool charge_host_time = false;
  // If true, ranks that resume at the same time run one after another, by number, so that the order
  // of arrival at shared resources is the same in every run. Otherwise they run concurrently.
  bool repeatable = true;
};

class VirtualClock {
 public:
  VirtualClock(int num_ranks, const VirtualClockOptions& options);
  VirtualClock(const VirtualClock&) = delete;
  VirtualClock& operator=(const VirtualClock&) = delete;

  // Starts a run. Call it before the ranks' threads start: all of them count from now on, until
  // each has left.
  void StartRun();
  // Called by the rank's own thread, first and last.
  void Enter(int rank);
  void Leave(int rank);

  // ---- For the rank's own thread ----
  // Returns the rank's time, which is never before the time at which it last resumed.
  Nanos Now(int rank) const;
  // Blocks until the virtual time is `due`. Host computation since this rank last resumed is part
  // of that time and not charged.
  void SleepUntil(int rank, Nanos due) ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until Wake. Returns false if nothing can wake it any more, because all ranks that have
  // not left wait for one another.
  bool Park(int rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // ---- For any thread ----
  // Resumes a parked rank at this time, or at once if it is past. No effect on other ranks.
  void Wake(int rank, Nanos at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Guards this clock and the state shared by its ranks.
  absl::Mutex& mutex() ABSL_LOCK_RETURNED(mutex_) { return mutex_; }

  // Return how late paced waits ended in real time: the sum over all jumps, and the maximum.
  Nanos total_lateness_ns() const { return total_lateness_ns_; }
  Nanos worst_lateness_ns() const { return worst_lateness_ns_; }

 private:
  enum class Phase { kRunning, kParked, kScheduled, kDone };
  struct RankState {
    Phase phase = Phase::kDone;
    absl::CondVar wake;
    // Used by the rank's thread only.
    Nanos now = 0;
    Nanos host_mark = 0;  // the thread's processor time when it resumed
  };
  using Due = std::pair<Nanos, int>;  // time, rank

  // Sets the rank's time, from which it continues.
  void Continue(RankState* state, Nanos now);
  // Waits, in a phase other than kRunning, until it is kRunning.
  void Await(int rank, Phase phase) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Schedule(int rank, Nanos due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Advances to the next time at which a rank runs. Called when none does.
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
  Nanos real_ns_ = 0;  // the real time that corresponds to now_ns_
  Nanos total_lateness_ns_ = 0, worst_lateness_ns_ = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_EMULATION_VIRTUAL_CLOCK_H_

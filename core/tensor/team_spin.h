// Keeps a device's OpenMP threads from spinning while other programs want its cores.
//
// Between parallel regions libgomp's threads spin for milliseconds before they sleep: the fastest
// way to go on if the cores are free. Beside another program one thread of a team is often not
// running; the others then burn, at each barrier, the time slices that it could have had. libgomp
// spins hardly at all (100 turns, some microseconds) as long as more OpenMP threads exist than the
// process has cores (GOMP_SPINCOUNT in its manual). So a team of idle threads is kept exactly while
// the cores are wanted.
#ifndef DPIPE_CORE_TENSOR_TEAM_SPIN_H_
#define DPIPE_CORE_TENSOR_TEAM_SPIN_H_

#include <vector>

#include "core/base/open_file.h"
#include "core/base/time.h"

namespace dpipe {

// Decides when spinning is limited; pure arithmetic.
class SpinPolicy {
 public:
  // At `now_ns`, after a window in which no thread waited for a core for more than this share of
  // the time. Returns true while spinning is to be limited: from a share of kWanted on, for a time
  // that doubles if the cores are still wanted afterwards, since what is lost shows only while
  // threads spin.
  bool Update(Nanos now_ns, double waited_share);

  static constexpr double kWanted = 0.25;  // a core shared with one other program gives 0.5
  static constexpr Nanos kMinHold = 2 * kNanosPerSecond, kMaxHold = 32 * kNanosPerSecond;

 private:
  Nanos hold_ns_ = kMinHold;
  Nanos limited_until_ns_ = 0;  // 0: never yet
};

// Watches the OpenMP team of the thread that makes it and calls it.
class TeamSpin {
 public:
  TeamSpin();
  ~TeamSpin();
  TeamSpin(const TeamSpin&) = delete;
  TeamSpin& operator=(const TeamSpin&) = delete;

  // Between pieces of work: reads once in kWindow how long the threads waited for a core, and
  // limits spinning, of all teams of the process, accordingly. No effect if the system does not
  // say.
  void Observe(Nanos now_ns);

  static constexpr Nanos kWindow = 200 * kNanosPerMilli;

 private:
  // Time that each thread has waited for a core so far; empty if the system does not say.
  std::vector<Nanos> Waited() const;

  std::vector<OwnedFd> schedstats_;  // of each thread
  std::vector<Nanos> waited_;
  Nanos window_begin_ns_;
  SpinPolicy policy_;
  bool limits_ = false;
};

// True while some team limits spinning.
bool SpinningIsLimited();

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_TEAM_SPIN_H_

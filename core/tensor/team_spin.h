// Keeps a device's OpenMP threads from spinning while other programs want its cores.
//
// libgomp's threads spin for milliseconds between parallel regions before they sleep, which is
// fastest if the cores are free. If another program competes for them, one thread of a team is
// often descheduled. The others then burn, at each barrier, time slices that it could have used.
// libgomp hardly spins (100 turns, some microseconds) while more OpenMP threads exist than the
// process has cores (GOMP_SPINCOUNT in its manual). So a team of idle threads is kept alive exactly
// while other programs want the cores.
#ifndef DPIPE_CORE_TENSOR_TEAM_SPIN_H_
#define DPIPE_CORE_TENSOR_TEAM_SPIN_H_

#include <vector>

#include "core/base/files/open_file.h"
#include "core/base/time.h"

namespace dpipe {

// Decides when to limit spinning; pure arithmetic.
class SpinPolicy {
 public:
  // Called at `now_ns`, at the end of a window; `waited_share` is the share of the window that the
  // longest-waiting thread waited for a core. Returns true while spinning is to be limited: from a
  // share of kWanted on, for a hold time. The hold time doubles if the cores are still wanted
  // afterwards, because contention shows only while threads spin.
  bool Update(Nanos now_ns, double waited_share);

  static constexpr double kWanted = 0.25;  // a core shared with one other program gives 0.5
  static constexpr Nanos kMinHold = 2 * kNanosPerSecond, kMaxHold = 32 * kNanosPerSecond;

 private:
  Nanos hold_ns_ = kMinHold;
  Nanos limited_until_ns_ = 0;  // 0: not limited so far
};

// Watches the OpenMP team of the constructing thread, which must also make all calls.
class TeamSpin {
 public:
  TeamSpin();
  ~TeamSpin();
  TeamSpin(const TeamSpin&) = delete;
  TeamSpin& operator=(const TeamSpin&) = delete;

  // Called between jobs. Once per kWindow, reads how long the threads waited for a core, and limits
  // the spinning of all the process's teams accordingly. Does nothing if the system does not
  // provide these times.
  void Observe(Nanos now_ns);

  static constexpr Nanos kWindow = 200 * kNanosPerMilli;

 private:
  // Returns the total time that each thread has waited for a core; empty if the system does not
  // provide it.
  std::vector<Nanos> Waited() const;

  std::vector<OwnedFd> schedstats_;  // one per thread
  std::vector<Nanos> waited_;
  Nanos window_begin_ns_;
  SpinPolicy policy_;
  bool limits_ = false;
};

// True if any team limits spinning at present.
bool SpinningIsLimited();

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_TEAM_SPIN_H_

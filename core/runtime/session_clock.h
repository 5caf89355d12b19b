// What time it is in a session, and how long its devices compute.
#ifndef DPIPE_CORE_RUNTIME_SESSION_CLOCK_H_
#define DPIPE_CORE_RUNTIME_SESSION_CLOCK_H_

#include <cstdint>

#include "core/base/time.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// A rank's; used by that rank's thread.
class RankClock {
 public:
  virtual ~RankClock() = default;

  // On one scale for all ranks of a session.
  virtual Nanos Now() = 0;
  // The rank comes to this instruction of its list in the plan, in step `step` (the prologue of
  // step k is run as step k - 1).
  virtual void Reach(const Plan& plan, int instruction, int64_t step) {}
  // What the instruction computes has been computed, from `start_ns` on. Returns when the device is
  // done with it: now, unless it takes its time.
  virtual void FinishComputation(Nanos start_ns) {}
  // A part of it has been computed since Now() was last asked for, and waiting follows.
  virtual void FinishPart() {}
};

class SessionClock {
 public:
  virtual ~SessionClock() = default;

  // Lives as long as this.
  virtual RankClock* rank(int rank) = 0;
  // Before the ranks' threads start on a run.
  virtual void StartRun() {}
  // By a rank's thread, before anything else of its part of the run, and when that has ended, well
  // or not.
  virtual void BeginRank(int rank) {}
  virtual void EndRank(int rank) {}
};

// The machine's clock. Serves any number of sessions at once.
class MachineClock : public SessionClock {
 public:
  static MachineClock* Get() {
    static MachineClock clock;
    return &clock;
  }
  RankClock* rank(int rank) override { return &any_rank_; }

 private:
  class Monotonic : public RankClock {
   public:
    Nanos Now() override { return MonotonicNow(); }
  };
  Monotonic any_rank_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_SESSION_CLOCK_H_

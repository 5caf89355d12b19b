// A session's clock, and the duration of its devices' computations.
#ifndef DPIPE_CORE_RUNTIME_SESSION_CLOCK_H_
#define DPIPE_CORE_RUNTIME_SESSION_CLOCK_H_

#include <cstdint>

#include "core/base/time.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// One rank's clock; used by that rank's thread.
class RankClock {
 public:
  virtual ~RankClock() = default;

  // Returns the time, on one scale for all ranks of a session.
  virtual Nanos Now() = 0;
  // Called when the rank has reached this instruction of its list in the plan, in step `step` (the
  // prologue of step k is run as step k - 1).
  virtual void Reach(const Plan& plan, int instruction, int64_t step) {}
  // Called when the instruction's computation, which began at `start_ns`, has been executed.
  // Returns when the device is done with it: at once, unless the clock emulates the device's time.
  virtual void FinishComputation(Nanos start_ns) {}
  // Called when a part of it has been computed since the last call of Now(), and a wait follows.
  virtual void FinishPart() {}
};

class SessionClock {
 public:
  virtual ~SessionClock() = default;

  // Returns a rank's clock, which lives as long as this.
  virtual RankClock* rank(int rank) = 0;
  // Called before the ranks' threads start a run.
  virtual void StartRun() {}
  // Called by a rank's thread, before its part of the run and after that has ended, with or without
  // an error.
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

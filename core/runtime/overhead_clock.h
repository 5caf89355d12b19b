// A machine clock that also measures the runtime's overhead.
#ifndef DPIPE_CORE_RUNTIME_OVERHEAD_CLOCK_H_
#define DPIPE_CORE_RUNTIME_OVERHEAD_CLOCK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/time.h"
#include "core/comm/in_process.h"
#include "core/runtime/session_clock.h"

namespace dpipe {

// Breakdown of a rank thread's wall-clock time in its runs: all of it is computing, waiting or
// overhead. Measure on otherwise idle cores, because time taken by other programs counts too.
struct RuntimeOverhead {
  int64_t num_instructions = 0;
  Nanos compute_ns = 0;  // between the start and the end of computations
  // Waits that no runtime could have shortened, given the arrival of the other ranks: for a message
  // before it was sent, for a sum before the last rank arrived, for the work of a collective.
  Nanos waiting_ns = 0;
  // The rest: interpreting, handing over, going to sleep and waking up late, allocating, beginning
  // and ending steps.
  Nanos overhead_ns = 0;
  // Part of overhead_ns: the time in waits after they could have ended. Known, like waiting_ns,
  // only for communicators that report their waits to the clock; other waits count as overhead.
  Nanos wake_up_ns = 0;

  double PerInstruction() const {
    return num_instructions == 0 ? 0 : static_cast<double>(overhead_ns) / num_instructions;
  }
};

// For one session at a time. Its communicators must have this as their observer.
class OverheadClock : public SessionClock, public WaitObserver {
 public:
  explicit OverheadClock(int num_ranks);
  ~OverheadClock() override;

  RankClock* rank(int rank) override;
  void BeginRank(int rank) override;
  void EndRank(int rank) override;
  void Waited(Rank rank, Nanos begin_ns, Nanos ready_ns, Nanos end_ns) override;

  // Returns the breakdown by rank, over all runs that have ended.
  std::vector<RuntimeOverhead> overheads() const;

 private:
  class MeteredRank;
  std::vector<std::unique_ptr<MeteredRank>> ranks_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_OVERHEAD_CLOCK_H_

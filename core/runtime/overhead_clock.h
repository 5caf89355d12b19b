// The machine's clock, which also measures what the runtime itself costs.
#ifndef DPIPE_CORE_RUNTIME_OVERHEAD_CLOCK_H_
#define DPIPE_CORE_RUNTIME_OVERHEAD_CLOCK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/time.h"
#include "core/comm/wait_observer.h"
#include "core/runtime/session_clock.h"

namespace dpipe {

// Where the time of a rank's thread goes in its runs, by the clock on the wall: all of it is one of
// computing, waiting or overhead. Measure where nothing else uses the cores, because what other
// programs take of them counts too.
struct RuntimeOverhead {
  int64_t num_instructions = 0;
  Nanos compute_ns = 0;  // between the start and the end of computations
  // For what no runtime could have had earlier, given when the other ranks came to it: a message
  // before it was sent, a sum before the last rank brought its part, the work of a collective.
  Nanos waiting_ns = 0;
  // All else: interpreting, handing over, going to sleep and being woken up late, allocating, the
  // beginning and the end of steps.
  Nanos overhead_ns = 0;
  // Of that, in waits after they could have been over. Known, as waiting_ns is, only of
  // communicators that tell the clock of their waits; other waits count as overhead.
  Nanos wake_up_ns = 0;

  double PerInstruction() const {
    return num_instructions == 0 ? 0 : static_cast<double>(overhead_ns) / num_instructions;
  }
};

// For one session at a time, whose communicators have it as their observer.
class OverheadClock : public SessionClock, public WaitObserver {
 public:
  explicit OverheadClock(int num_ranks);
  ~OverheadClock() override;

  RankClock* rank(int rank) override;
  void BeginRank(int rank) override;
  void EndRank(int rank) override;
  void Waited(Rank rank, Nanos begin_ns, Nanos ready_ns, Nanos end_ns) override;

  // By rank, over all runs that have ended.
  std::vector<RuntimeOverhead> overheads() const;

 private:
  class MeteredRank;
  std::vector<std::unique_ptr<MeteredRank>> ranks_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_OVERHEAD_CLOCK_H_

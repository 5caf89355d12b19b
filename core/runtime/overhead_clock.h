// The machine's clock, which also measures what the runtime itself costs.
#ifndef DPIPE_CORE_RUNTIME_OVERHEAD_CLOCK_H_
#define DPIPE_CORE_RUNTIME_OVERHEAD_CLOCK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/time.h"
#include "core/runtime/session_clock.h"

namespace dpipe {

// Processor time of a rank's own thread: waiting costs none, and neither do other programs.
struct RuntimeOverhead {
  int64_t num_instructions = 0;
  Nanos compute_ns = 0;   // between the start and the end of computations
  Nanos overhead_ns = 0;  // all else: interpreting, handing over, waking up

  double PerInstruction() const {
    return num_instructions == 0 ? 0 : static_cast<double>(overhead_ns) / num_instructions;
  }
};

// For one session at a time.
class OverheadClock : public SessionClock {
 public:
  explicit OverheadClock(int num_ranks);
  ~OverheadClock() override;

  RankClock* rank(int rank) override;
  void BeginRank(int rank) override;
  void EndRank(int rank) override;

  // By rank, over all runs that have ended.
  std::vector<RuntimeOverhead> overheads() const;

 private:
  class MeteredRank;
  std::vector<std::unique_ptr<MeteredRank>> ranks_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_OVERHEAD_CLOCK_H_

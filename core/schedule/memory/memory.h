// What a plan keeps in memory, as it allocates and frees.
//
// A rank holds: its stages' weights, gradients and moments (a forward-only stage shares those of
// its second lap; of a sharded stage an even part; of a relaxed plan also the copies of weights
// that it needs at most); the weights of the frozen layers that it runs;
// the room that sums over its stages' ranks take in the communicator
// (core/base/reduction_chunks.h); what passes keep and hand on (pass_memory.h); what frozen work
// keeps (frozen_memory.h); the largest workspace of a running instruction. Steps repeat, so what
// this step makes for the next one is counted beside what the last one made for this one.
#ifndef DPIPE_CORE_SCHEDULE_MEMORY_MEMORY_H_
#define DPIPE_CORE_SCHEDULE_MEMORY_MEMORY_H_

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/placement/boundary.h"
#include "core/schedule/placement/weight_groups.h"

namespace dpipe {

struct RankMemory {
  int64_t state_bytes = 0;                 // held all the time
  std::vector<int64_t> instruction_bytes;  // held while instruction i runs, state included
  int64_t peak_bytes = 0;
  int peak_instruction = 0;  // the first at which the peak is reached
};

// For a plan that is well formed (as LowerPlan makes them) in its steady state. Plan and cost model
// outlive it.
class PlanMemory {
 public:
  PlanMemory(const Plan& plan, const CostModel& cost);
  // About linear in the rank's instructions and samples.
  RankMemory OfRank(int rank) const;

 private:
  // For the largest of the rank's reductions, which come one after another.
  int64_t ReductionRoomBytes(int rank) const;

  const Plan& plan_;
  const CostModel& cost_;
  std::vector<std::vector<int>> stages_;     // by rank
  std::vector<ChainBoundaries> boundaries_;  // by chain
  const WeightGroups weights_;
};

// The same for one rank alone.
RankMemory MemoryOfRank(const Plan& plan, int rank, const CostModel& cost);

// ResourceExhausted, "rank 2, instruction 17 (FORWARD): peak 41.2 GiB exceeds the limit of 40.0
// GiB", the limit being that of the rank's device.
absl::Status CheckMemory(const Plan& plan, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MEMORY_MEMORY_H_

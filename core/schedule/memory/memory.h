// The memory that a plan needs on each rank, instruction by instruction.
//
// A rank holds:
//   - weights, gradients and moments of its stages. A forward-only stage shares those of its second
//     lap, a sharded stage has an even share (of trained weights only, if it keeps frozen ones),
//     and a relaxed plan adds the maximum number of weight copies that it needs;
//   - weights of the frozen layers that it runs;
//   - communicator buffers for the sums over the ranks of its stages
//     (core/base/reduction_chunks.h);
//   - values that passes keep and hand on (pass_memory.h);
//   - values that frozen work keeps (frozen_memory.h);
//   - the largest workspace of a running instruction.
// Steps repeat, so outputs made for the next step count in addition to those that the previous step
// made for this one.
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
  int64_t state_bytes = 0;                 // held throughout the step
  std::vector<int64_t> instruction_bytes;  // [i]: held while instruction i runs, state included
  int64_t peak_bytes = 0;
  int peak_instruction = 0;  // the first instruction at the peak
};

// Computes the memory of a plan in the steady state. The plan must be well formed, as LowerPlan
// makes them. Plan and cost model must outlive this object.
class PlanMemory {
 public:
  PlanMemory(const Plan& plan, const CostModel& cost);
  // Returns the memory of one rank. Time about linear in the rank's instructions and samples.
  RankMemory OfRank(int rank) const;

 private:
  // Returns the communicator's buffer bytes for the rank's largest reduction. Reductions run one
  // after another, so they share the buffer.
  int64_t ReductionBufferBytes(int rank) const;

  const Plan& plan_;
  const CostModel& cost_;
  std::vector<std::vector<int>> stages_;     // by rank
  std::vector<ChainBoundaries> boundaries_;  // by chain
  const WeightGroups weights_;
};

// Returns PlanMemory(plan, cost).OfRank(rank).
RankMemory MemoryOfRank(const Plan& plan, int rank, const CostModel& cost);

// True if a rank exceeds its memory, and all that do have their peak in frozen work. Smaller
// batches of frozen work may then help.
bool FrozenWorkExceedsMemory(const Plan& plan, const CostModel& cost);
// Returns the maximum number of samples of a FROZEN_FORWARD; 0 if there is none.
int LargestFrozenBatch(const Plan& plan);

// Returns ResourceExhausted if a rank's peak exceeds the memory limit of its device: "rank 2,
// instruction 17 (FORWARD): peak 41.2 GiB exceeds the limit of 40.0 GiB". A limit of 0 is not
// checked.
absl::Status CheckMemory(const Plan& plan, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MEMORY_MEMORY_H_

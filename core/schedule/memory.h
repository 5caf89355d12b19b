// What a plan keeps in memory, as it allocates and frees.
//
// A rank holds: its stage's weights, gradients and moments; the weights of the frozen layers that
// it runs; what forward passes save for backward passes; values on their way over a link; inputs
// and outputs of frozen work and its intermediate values; the largest workspace of a running
// instruction. Steps repeat, so what this step makes for the next one is counted beside what the
// last one made for this one.
#ifndef DPIPE_CORE_SCHEDULE_MEMORY_H_
#define DPIPE_CORE_SCHEDULE_MEMORY_H_

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

struct RankMemory {
  int64_t state_bytes = 0;                 // held all the time
  std::vector<int64_t> instruction_bytes;  // held while instruction i runs, state included
  int64_t peak_bytes = 0;
  int peak_instruction = 0;  // the first at which the peak is reached
};

// Of one rank of a plan that is well formed (as LowerPlan makes them) in its steady state.
RankMemory MemoryOfRank(const Plan& plan, int rank, const CostModel& cost);

// ResourceExhausted, "rank 2, instruction 17 (FORWARD): peak 41.2 GiB exceeds the limit of 40.0
// GiB".
absl::Status CheckMemory(const Plan& plan, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MEMORY_H_

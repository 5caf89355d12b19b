// Which strategies of a comparison are in a device's memory at the same time.
#ifndef DPIPE_BENCH_SESSION_GROUPS_H_
#define DPIPE_BENCH_SESSION_GROUPS_H_

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe::bench {

// Bytes, by rank.
struct SessionNeeds {
  std::vector<std::vector<int64_t>> sessions;  // by strategy; empty of one that has no plan
  std::vector<int64_t> profiling;              // what profiling takes
  std::vector<int64_t> limits;                 // what there is; 0: no limit
};

struct SessionGroups {
  // Strategies by number, in order; those without a plan are in none.
  std::vector<std::vector<int>> groups;
  // Everything fits at once, and profiling beside it. Else there are no sessions while the model is
  // profiled.
  bool all_at_once = true;
};

// One group where all fit; else as many in each, in order, as do, at least one.
SessionGroups GroupSessions(const SessionNeeds& needs);

// By the plans' own account (core/schedule/memory.h): a session keeps what its peak took for its
// next step. Profiling holds a backbone with the largest of `local_batches`. Plans without devices
// are of strategies that have none.
SessionNeeds NeedsOf(const std::vector<const Plan*>& plans, const std::vector<int>& local_batches,
                     const CostModel& cost);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SESSION_GROUPS_H_

// Groups the strategies of a comparison so that each group fits into the devices' memory.
#ifndef DPIPE_BENCH_COMPARISON_SESSION_GROUPS_H_
#define DPIPE_BENCH_COMPARISON_SESSION_GROUPS_H_

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe::bench {

// Bytes by rank.
struct SessionNeeds {
  std::vector<std::vector<int64_t>> sessions;  // by strategy; empty if it has no plan
  std::vector<int64_t> profiling;              // used by profiling
  std::vector<int64_t> limits;                 // available memory; 0: no limit
};

struct SessionGroups {
  // Indices of strategies, in order, without those that have no plan.
  std::vector<std::vector<int>> groups;
  // True if everything fits at once, together with profiling. If not, no session exists while the
  // model is profiled.
  bool all_at_once = true;
};

// Returns one group if all fit. Otherwise fills groups in order, each with as many as fit and at
// least one.
SessionGroups GroupSessions(const SessionNeeds& needs);

// Returns the needs as predicted for the plans (core/schedule/memory/memory.h): a session keeps its
// peak memory for its next step. Profiling holds a backbone with the largest of `local_batches`. A
// plan without devices stands for a strategy that has no plan.
SessionNeeds NeedsOf(const std::vector<const Plan*>& plans, const std::vector<int>& local_batches,
                     const CostModel& cost);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMPARISON_SESSION_GROUPS_H_

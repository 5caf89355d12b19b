// A Strategy's fields: what each may be, and how they are set from text.
#ifndef DPIPE_CORE_PLANNER_STRATEGY_H_
#define DPIPE_CORE_PLANNER_STRATEGY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/planner/pipeline/shape.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// InvalidArgument, naming the field, its value and the valid ones, if `strategy` is not one that
// MakePlan knows. `schedule` and `shard` may name alternatives, "single|1f1b" and "none|zero1": the
// best simulated one is taken. An alternative schedule may have a partitioner or a sharding of its
// own, "wave/skip_aware|single/zero3", instead of the strategy's.
absl::Status CheckStrategy(const Strategy& strategy);

// Sets one field from "key=value". InvalidArgument, listing the keys, for an unknown one.
absl::Status SetStrategyField(absl::string_view assignment, Strategy& strategy);

// One that strategy.schedule() names; empty: the strategy's own.
struct ScheduleAlternative {
  std::string schedule;
  std::string partitioner;
  std::string shard;
};

// The alternatives that strategy.schedule() names.
std::vector<ScheduleAlternative> ScheduleAlternatives(const Strategy& strategy);

// Whether weights lag behind (schedule/lowering/relaxation.h).
bool Relaxes(const Strategy& strategy);

// Those that strategy.shard() names, without those that the strategy's compression or relaxed
// weights exclude. `strategy` passes CheckStrategy.
std::vector<Sharding> ShardAlternatives(const Strategy& strategy);

// The one of that name; kNone if there is none.
Sharding ShardingOf(const std::string& name);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_STRATEGY_H_

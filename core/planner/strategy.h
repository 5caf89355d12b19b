// The fields of a Strategy: their valid values, and how to set them from text.
#ifndef DPIPE_CORE_PLANNER_STRATEGY_H_
#define DPIPE_CORE_PLANNER_STRATEGY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/planner/pipeline/shape.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// Returns InvalidArgument, naming the field, its value and the valid ones, if MakePlan does not
// know `strategy`. `schedule` and `shard` may name alternatives, "single|1f1b" and "none|zero1":
// the best simulated one is taken. An alternative schedule may have a partitioner or a sharding of
// its own, "wave/skip_aware|single/zero3", instead of the strategy's.
absl::Status CheckStrategy(const Strategy& strategy);

// Sets one field from "key=value". Returns InvalidArgument if the key is unknown or the value
// cannot be parsed.
absl::Status SetStrategyField(absl::string_view assignment, Strategy& strategy);

// One alternative that strategy.schedule() names. Empty fields: the strategy's own.
struct ScheduleAlternative {
  std::string schedule;
  std::string partitioner;
  std::string shard;
};

// Returns the alternatives that strategy.schedule() names.
std::vector<ScheduleAlternative> ScheduleAlternatives(const Strategy& strategy);

// True if weights lag behind (schedule/lowering/relaxation.h).
bool Relaxes(const Strategy& strategy);

// Returns the shardings that strategy.shard() names. If there are several, leaves out those that
// the strategy's compression or relaxed weights exclude. `strategy` passes CheckStrategy.
std::vector<Sharding> ShardAlternatives(const Strategy& strategy);

// Leaves out alternatives that divide weights that are not trained (ZeRO-3), for models in which
// these cannot be divided. A strategy without another alternative stays as it is. `strategy` passes
// CheckStrategy.
void KeepFrozenWeightsWhole(Strategy& strategy);

// Returns the sizes that strategy.local_batches() names, increasing. `strategy` passes
// CheckStrategy.
std::vector<int> LocalBatches(const Strategy& strategy);

// Returns the sharding of that name; kNone if there is none.
Sharding ShardingOf(const std::string& name);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_STRATEGY_H_

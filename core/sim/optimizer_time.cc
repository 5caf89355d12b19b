#include "core/sim/optimizer_time.h"

#include "core/proto/instruction_parts.h"

namespace dpipe {

std::vector<Nanos> OptimizerTimes(const Plan& plan, const CostModel& cost) {
  std::vector<Nanos> times(plan.devices_size(), cost.profile().optimizer_fixed_ns());
  for (const Stage& stage : plan.stages()) {
    if (stage.forward_only()) continue;
    const LayerRange layers = LayersIn(stage);
    const int shards = stage.sharded() ? stage.ranks_size() * cost.num_groups() : 1;
    const Nanos share = cost.OptimizerShare(stage.component(), layers, shards);
    for (int rank : stage.ranks()) times[rank] += share;
  }
  for (int rank = 0; rank < plan.devices_size(); ++rank) {
    times[rank] = cost.OnRank(times[rank], rank);
  }
  return times;
}

}  // namespace dpipe

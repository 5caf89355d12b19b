// DAPPLE (Fan et al., PPoPP 2021): synchronous 1F1B over the partition and replication with the
// lowest latency by DAPPLE's own model.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy Dapple() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("dapple");
  strategy.set_partitioner("dapple");
  return {StrategyFamily::kPartitioner, strategy, "DAPPLE's planner under 1F1B"};
}

REGISTER_STRATEGY(Dapple);

}  // namespace
}  // namespace dpipe

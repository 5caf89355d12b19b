// ZeRO-3 (Rajbhandari et al., SC 2020), as in FullyShardedDataParallel: data parallelism in which
// each device keeps a part of the weights, gradients and moments. A bucket's weights are gathered
// before its forward pass and before its backward pass, one bucket ahead. Its gradients are reduced
// to their owners.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy Zero3() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("zero3");
  strategy.set_partitioner("none");
  strategy.set_schedule("single");
  strategy.set_shard("zero3");
  return {StrategyFamily::kDataParallel, strategy,
          "data parallelism with weights, gradients and moments sharded (ZeRO-3, FSDP)"};
}

REGISTER_STRATEGY(Zero3);

}  // namespace
}  // namespace dpipe

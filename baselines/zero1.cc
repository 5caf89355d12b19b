// ZeRO-1 (Rajbhandari et al., SC 2020, P_os): data parallelism in which each device keeps and
// updates a part of the optimizer's state. Gradients are reduced to their owners. The new weights
// are gathered in buckets when the next step begins. Each bucket is gathered one pass before the
// first forward pass that needs it. The frozen components and earlier passes hide the collective.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy Zero1() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("zero1");
  strategy.set_partitioner("none");
  strategy.set_schedule("single");
  strategy.set_shard("zero1");
  return {StrategyFamily::kDataParallel, strategy,
          "data parallelism with the optimizer's state sharded (ZeRO-1)"};
}

REGISTER_STRATEGY(Zero1);

}  // namespace
}  // namespace dpipe

// ZeroPP (arXiv 2402.03791): interleaved stages whose weights are sharded over the replicas of the
// pipeline and gathered once per unit of micro-batches.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy ZeroPP() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("zeropp");
  strategy.set_schedule("zeropp");
  strategy.set_shard("zero3");
  return {StrategyFamily::kPipeline, strategy,
          "sharded stages gathered once per unit of micro-batches (ZeroPP)"};
}

REGISTER_STRATEGY(ZeroPP);

}  // namespace
}  // namespace dpipe

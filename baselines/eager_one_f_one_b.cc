// Eager 1F1B (Zhuang et al., cross-mesh resharding, MLSys 2023): 1F1B with a longer warm-up. Each
// transfer gets one slot of time to arrive, at the cost of up to twice the stashed micro-batches.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy EagerOneFOneB() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("eager-1f1b");
  strategy.set_schedule("eager-1f1b");
  return {StrategyFamily::kPipeline, strategy, "1F1B with twice the warm-up, to hide transfers"};
}

REGISTER_STRATEGY(EagerOneFOneB);

}  // namespace
}  // namespace dpipe

// 1F1B (PipeDream-Flush: Narayanan et al., ICML 2021): after its warm-up, a stage alternates one
// forward and one backward, which stashes fewer micro-batches than GPipe at the same bubble.
// Frozen components run data-parallel before the pipeline; stage and micro-batch numbers by
// search.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy OneFOneB() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("1f1b");
  strategy.set_schedule("1f1b");
  return {StrategyFamily::kPipeline, strategy, "one forward, one backward (PipeDream-Flush)"};
}

REGISTER_STRATEGY(OneFOneB);

}  // namespace
}  // namespace dpipe

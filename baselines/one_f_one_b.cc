// 1F1B (PipeDream-Flush: Narayanan et al., ICML 2021): after its warm-up, a stage alternates
// forward and backward passes. It stashes fewer micro-batches than GPipe and has the same bubble.
// Frozen components run data-parallel before the pipeline. The search chooses the numbers of stages
// and micro-batches.
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

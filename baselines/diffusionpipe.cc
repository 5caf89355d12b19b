// DiffusionPipe (Tian et al., MLSys 2024, arXiv 2405.01248): 1F1B over the exact partition, with
// the frozen components' work for the next step placed in the bubbles of the current step.
// [algorithms.md §4] Beyond the paper, devices get unequal numbers of samples, as their bubbles and
// stages allow.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy DiffusionPipe() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("diffusionpipe");
  strategy.set_schedule("1f1b|cascaded");
  strategy.set_frozen("fill");
  return {StrategyFamily::kFilling, strategy,
          "1F1B with the next step's frozen work in the bubbles (DiffusionPipe)"};
}

REGISTER_STRATEGY(DiffusionPipe);

}  // namespace
}  // namespace dpipe

// V-Half (Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024): a V-shaped
// schedule whose building block stashes about half as much as 1F1B.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy VHalf() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("v-half");
  strategy.set_schedule("v-half");
  return {StrategyFamily::kZeroBubble, strategy,
          "V with about half the activation memory (Controllable Memory)"};
}

REGISTER_STRATEGY(VHalf);

}  // namespace
}  // namespace dpipe

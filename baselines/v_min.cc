// V-Min (Qi et al., NeurIPS 2024): the V-shaped schedule whose building block stashes the minimum,
// about a third as much as 1F1B.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy VMin() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("v-min");
  strategy.set_schedule("v-min");
  return {StrategyFamily::kZeroBubble, strategy,
          "V with about a third of the activation memory (Controllable Memory)"};
}

REGISTER_STRATEGY(VMin);

}  // namespace
}  // namespace dpipe

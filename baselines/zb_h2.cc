// ZB-H2 (Qi et al., ICLR 2024): ZB-H1 with more forward passes in the warm-up, which stashes about
// twice as many micro-batches.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy ZbH2() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("zb-h2");
  strategy.set_schedule("zb-h2");
  return {StrategyFamily::kZeroBubble, strategy,
          "longer warm-up, almost no bubbles, twice the memory (Zero Bubble)"};
}

REGISTER_STRATEGY(ZbH2);

}  // namespace
}  // namespace dpipe

// ZB-H1 (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024): weight gradients are separate
// passes and fill the cool-down, with the memory of 1F1B.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy ZbH1() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("zb-h1");
  strategy.set_schedule("zb-h1");
  return {StrategyFamily::kZeroBubble, strategy,
          "1F1B with weight gradients in the cool-down, at its memory (Zero Bubble)"};
}

REGISTER_STRATEGY(ZbH1);

}  // namespace
}  // namespace dpipe

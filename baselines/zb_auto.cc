// Automatic zero-bubble schedule (Qi et al., ICLR 2024): the order of forward, input-gradient and
// weight-gradient passes that simulates best with the profile's times.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy ZbAuto() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("zb-auto");
  strategy.set_schedule("zb-auto");
  return {StrategyFamily::kZeroBubble, strategy,
          "the best split order found by simulation for these times (Zero Bubble)"};
}

REGISTER_STRATEGY(ZbAuto);

}  // namespace
}  // namespace dpipe

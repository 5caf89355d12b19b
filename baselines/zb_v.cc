// ZB-V (Qi et al., ICLR 2024): two stages per device, folded into a V. There are no bubbles if the
// three kinds of passes take equal times, and the memory is that of 1F1B.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy ZbV() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("zb-v");
  strategy.set_schedule("zb-v");
  return {StrategyFamily::kZeroBubble, strategy,
          "two stages per device in a V, no bubbles at equal times (Zero Bubble)"};
}

REGISTER_STRATEGY(ZbV);

}  // namespace
}  // namespace dpipe

// DualPipe-V: DeepSeek's bidirectional DualPipe, cut in half and folded into a V, which needs only
// one copy of the weights.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy DualPipeV() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("dualpipe-v");
  strategy.set_schedule("dualpipe-v");
  return {StrategyFamily::kZeroBubble, strategy, "DualPipe cut in half, in a V"};
}

REGISTER_STRATEGY(DualPipeV);

}  // namespace
}  // namespace dpipe

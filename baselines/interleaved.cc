// Interleaved 1F1B (Narayanan et al., SC 2021): every device holds several non-adjacent stages,
// which shortens warm-up and cool-down but sends more messages.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy Interleaved() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("interleaved");
  strategy.set_schedule("interleaved");
  return {StrategyFamily::kPipeline, strategy, "1F1B with two stages per device (Megatron-LM)"};
}

REGISTER_STRATEGY(Interleaved);

}  // namespace
}  // namespace dpipe

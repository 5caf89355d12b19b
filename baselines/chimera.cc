// Chimera (Li and Hoefler, SC 2021): two pipelines in opposite directions over the same devices
// fill each other's ramps. Every device holds two stages, so there are two copies of the weights.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy Chimera() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("chimera");
  strategy.set_schedule("chimera");
  return {StrategyFamily::kBidirectional, strategy,
          "two directions at once, two copies of the weights (Chimera)"};
}

REGISTER_STRATEGY(Chimera);

}  // namespace
}  // namespace dpipe

// PipeDream's partitioner (Narayanan et al., SOSP 2019), which may replicate stages unequally,
// under synchronous 1F1B. Excludes PipeDream's weight stashing, which changes the mathematics.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy PipeDream() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("pipedream");
  strategy.set_partitioner("pipedream");
  return {StrategyFamily::kPartitioner, strategy,
          "PipeDream's partition with replicated stages, run synchronously"};
}

REGISTER_STRATEGY(PipeDream);

}  // namespace
}  // namespace dpipe

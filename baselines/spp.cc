// SPP-style (Luo et al., arXiv 2204.10562): devices ordered by recursive min-cut, a DP over layers,
// stages and replication, then 1F1B. Called SPP-style because it is our own reading of the paper.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy Spp() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("spp");
  strategy.set_partitioner("spp");
  return {StrategyFamily::kPartitioner, strategy,
          "SPP-style: min-cut device order, replication DP"};
}

REGISTER_STRATEGY(Spp);

}  // namespace
}  // namespace dpipe

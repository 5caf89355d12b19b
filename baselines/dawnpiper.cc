// DawnPiper (arXiv 2505.05856): a recursive binary partition that balances compute within the
// memory limit, then 1F1B.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy DawnPiper() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("dawnpiper");
  strategy.set_partitioner("dawnpiper");
  return {StrategyFamily::kPartitioner, strategy, "DawnPiper's memory-aware partition under 1F1B"};
}

REGISTER_STRATEGY(DawnPiper);

}  // namespace
}  // namespace dpipe

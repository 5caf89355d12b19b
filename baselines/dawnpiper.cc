// DawnPiper (arXiv 2505.05856): recursive binary partition that balances compute within what
// memory allows, then 1F1B.
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

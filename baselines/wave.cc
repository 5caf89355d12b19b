// PULSE-style wave (arXiv 2606.19163): the backbone is folded into a V. A U-Net's encoder stage
// shares a device with the decoder stage that reads its skips, so no skip tensor crosses a link.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy Wave() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("wave");
  strategy.set_partitioner("skip_aware");
  strategy.set_schedule("wave");
  return {StrategyFamily::kPipeline, strategy,
          "encoder and decoder partners on one device, no skip crosses a link (PULSE)"};
}

REGISTER_STRATEGY(Wave);

}  // namespace
}  // namespace dpipe

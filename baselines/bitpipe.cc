// BitPipe (arXiv 2410.19367): two V-shaped interleaved pipelines in opposite directions.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy BitPipe() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("bitpipe");
  strategy.set_schedule("bitpipe");
  return {StrategyFamily::kBidirectional, strategy,
          "two V-shaped pipelines in opposite directions (BitPipe)"};
}

REGISTER_STRATEGY(BitPipe);

}  // namespace
}  // namespace dpipe

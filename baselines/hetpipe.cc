// HetPipe (Park et al., arXiv 2005.14038): each pipeline group is a virtual worker that trains by
// itself with stashed weights. The workers share their updates after each wave of minibatches, at
// clock distance 0.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy HetPipe() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("hetpipe");
  strategy.set_weights("stashed");
  strategy.set_update_every(1);
  strategy.set_sync_every(2);
  return {StrategyFamily::kRelaxed, strategy,
          "virtual workers that share updates every wave of two (HetPipe)"};
}

REGISTER_STRATEGY(HetPipe);

}  // namespace
}  // namespace dpipe

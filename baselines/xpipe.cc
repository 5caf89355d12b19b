// XPipe (Guan et al., arXiv 1911.04610): asynchronous 1F1B in which minibatches are cut into
// micro-batches. Forward passes use weights that Adam's moments predict for the time of their
// minibatch's own update, so no weight versions need to be kept.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy XPipe() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("xpipe");
  strategy.set_weights("predicted");
  strategy.set_update_every(2);
  return {StrategyFamily::kRelaxed, strategy,
          "forward passes with weights predicted by Adam's moments (XPipe)"};
}

REGISTER_STRATEGY(XPipe);

}  // namespace
}  // namespace dpipe

// PipeDream as published (Harlap et al., arXiv 1806.03377): 1F1B without a flush between updates.
// Every micro-batch is a minibatch of its own. A stage updates its weights after each backward
// pass. The version used by a forward pass is kept until the backward pass of the same micro-batch.
// The pipeline drains at the end of a step, as PipeDream's does at the end of an epoch.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy PipeDreamStashing() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("pipedream_stashing");
  strategy.set_weights("stashed");
  strategy.set_update_every(1);
  return {StrategyFamily::kRelaxed, strategy,
          "an update per micro-batch, weights stashed for its backward pass (PipeDream)"};
}

REGISTER_STRATEGY(PipeDreamStashing);

}  // namespace
}  // namespace dpipe

// Precomputed frozen outputs: latents and text embeddings are read from storage, so no frozen
// component runs at all. It costs the storage and forbids image augmentation, which is why it is a
// row of its own and no rival to the others. The better, by simulation, of two ways to train the
// backbone that is left: data parallelism, or 1F1B over the exact partition.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy OfflineCache() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("offline_cache");
  strategy.set_schedule("single|1f1b");
  strategy.set_frozen("cached");
  return {StrategyFamily::kCached, strategy,
          "frozen outputs read from storage, nothing frozen runs"};
}

REGISTER_STRATEGY(OfflineCache);

}  // namespace
}  // namespace dpipe

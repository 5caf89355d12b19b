// Precomputed frozen outputs: latents and text embeddings are read from storage, so no frozen
// component runs. This costs storage and rules out image augmentation, so reports show it as a
// reference, not as a competitor. The remaining backbone is trained by data parallelism or by 1F1B
// over the exact partition, whichever simulates faster.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy OfflineCache() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("offline_cache");
  strategy.set_schedule("single|1f1b");
  strategy.set_frozen("cached");
  return {StrategyFamily::kCached, strategy,
          "frozen outputs read from storage; no frozen component runs"};
}

REGISTER_STRATEGY(OfflineCache);

}  // namespace
}  // namespace dpipe

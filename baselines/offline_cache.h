// Precomputed frozen outputs: latents and text embeddings are read from storage, so no frozen
// component runs at all. It costs the storage and forbids image augmentation, which is why it is a
// row of its own and no rival to the others. The better, by simulation, of two ways to train the
// backbone that is left: data parallelism, or 1F1B over the exact partition.
#ifndef DPIPE_BASELINES_OFFLINE_CACHE_H_
#define DPIPE_BASELINES_OFFLINE_CACHE_H_

#include "core/proto/plan.pb.h"

namespace dpipe {

Strategy OfflineCache();

}  // namespace dpipe

#endif  // DPIPE_BASELINES_OFFLINE_CACHE_H_

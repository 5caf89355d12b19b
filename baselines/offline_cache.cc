#include "baselines/offline_cache.h"

namespace dpipe {

Strategy OfflineCache() {
  Strategy strategy;
  strategy.set_name("offline_cache");
  strategy.set_partitioner("balanced");
  strategy.set_schedule("single|1f1b");
  strategy.set_frozen("cached");
  strategy.set_sync("bucketed");
  return strategy;
}

}  // namespace dpipe

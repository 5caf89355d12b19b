#include "baselines/data_parallel.h"

namespace dpipe {

Strategy DataParallel() {
  Strategy strategy;
  strategy.set_name("data_parallel");
  strategy.set_partitioner("none");
  strategy.set_schedule("single");
  strategy.set_frozen("first");
  strategy.set_sync("bucketed");
  return strategy;
}

}  // namespace dpipe

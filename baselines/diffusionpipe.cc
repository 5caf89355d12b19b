#include "baselines/diffusionpipe.h"

namespace dpipe {

Strategy DiffusionPipe() {
  Strategy strategy;
  strategy.set_name("diffusionpipe");
  strategy.set_partitioner("balanced");
  strategy.set_schedule("1f1b");
  strategy.set_frozen("fill");
  strategy.set_sync("bucketed");
  strategy.set_partial_batch(true);
  strategy.set_cross_iteration(true);
  return strategy;
}

}  // namespace dpipe

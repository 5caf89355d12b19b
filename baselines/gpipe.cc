#include "baselines/gpipe.h"

namespace dpipe {

Strategy GPipe() {
  Strategy strategy;
  strategy.set_name("gpipe");
  strategy.set_partitioner("balanced");
  strategy.set_schedule("gpipe");
  strategy.set_frozen("first");
  strategy.set_sync("bucketed");
  return strategy;
}

}  // namespace dpipe

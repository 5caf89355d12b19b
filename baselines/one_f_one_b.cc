#include "baselines/one_f_one_b.h"

namespace dpipe {

Strategy OneFOneB() {
  Strategy strategy;
  strategy.set_name("1f1b");
  strategy.set_partitioner("balanced");
  strategy.set_schedule("1f1b");
  strategy.set_frozen("first");
  strategy.set_sync("bucketed");
  return strategy;
}

}  // namespace dpipe

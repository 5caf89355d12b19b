// GPipe (Huang et al., NeurIPS 2019): all forwards, then all backwards, over stages of the exact
// partition. The frozen components run data-parallel before the pipeline, as systems without
// filling do; stage and micro-batch numbers by search, so that what it lacks is filling and
// nothing else.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy GPipe() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("gpipe");
  strategy.set_schedule("gpipe");
  return {StrategyFamily::kPipeline, strategy, "all forwards, then all backwards (GPipe)"};
}

REGISTER_STRATEGY(GPipe);

}  // namespace
}  // namespace dpipe

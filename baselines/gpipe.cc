// GPipe (Huang et al., NeurIPS 2019): all forward passes, then all backward passes, over the stages
// of the exact partition. The frozen components run data-parallel before the pipeline, as in
// systems without filling. The search chooses the numbers of stages and micro-batches, so that
// filling is the only thing it lacks.
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

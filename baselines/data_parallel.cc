// Data parallelism, as in DistributedDataParallel: every device holds the whole model and runs the
// frozen components and the backbone on its share of the batch. Gradients are summed in buckets
// that overlap the backward pass. The search chooses the number of micro-batches (gradient
// accumulation).
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy DataParallel() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("data_parallel");
  strategy.set_partitioner("none");
  strategy.set_schedule("single");
  return {StrategyFamily::kDataParallel, strategy,
          "whole model on every device, all-reduce in buckets (PyTorch DDP)"};
}

REGISTER_STRATEGY(DataParallel);

}  // namespace
}  // namespace dpipe

// This project's own: frozen work fills the bubbles of whichever schedule simulates best,
// zero-bubble, V and bidirectional schedules among them; weight gradients and frozen work then
// compete for the same gaps. Where too little frozen work is there to fill 1F1B's bubbles, these
// leave fewer to fill. One stage on every device, filled, is among them, and so is the optimizer's
// state divided over the ranks of a stage: each wins where its collectives cost little.
// Bidirectional ones hold the weights twice, which memory has to allow and makes sums agree to
// rounding rather than bit by bit. Every other strategy that computes the same gradients is an
// alternative here, with its own partitioner or sharding, so that none is faster as a rule (search.h).
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy OpenDiffusionPipe() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("opendiffusionpipe");
  strategy.set_schedule(
      "1f1b|eager-1f1b|interleaved|wave|zb-h1|zb-h2|zb-auto|zb-v|v-half|v-min|dualpipe-v|chimera|"
      "bitpipe|cascaded|cascaded-zb|cascaded-v|gpipe|single|wave/skip_aware|1f1b/dapple|"
      "1f1b/dawnpiper|1f1b/pipedream|1f1b/spp|single/zero3|zeropp/zero3");
  strategy.set_shard("none|zero1");
  strategy.set_frozen("fill");
  strategy.set_recompute("auto");
  strategy.set_tune(true);
  return {StrategyFamily::kFilling, strategy,
          "the best filled plan over all schedules and shardings of the optimizer's state: ours"};
}

REGISTER_STRATEGY(OpenDiffusionPipe);

}  // namespace
}  // namespace dpipe

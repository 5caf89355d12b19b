// This project's own strategy: frozen work fills the bubbles of the schedule that simulates best.
//
// - Zero-bubble, V-shaped and bidirectional schedules are candidates. Their weight gradients
//   compete with frozen work for the same gaps. If there is too little frozen work to fill the
//   bubbles of 1F1B, these schedules leave fewer bubbles to fill.
// - One filled stage on every device is a candidate, and so is sharding the optimizer's state over
//   the ranks of a stage. Each wins if its collectives are cheap.
// - Bidirectional schedules need memory for two copies of the weights, and their sums agree only to
//   rounding, not bit for bit.
// - Every other strategy that computes the same gradients is an alternative, with its own
//   partitioner and sharding, so that none of them is faster as a rule (search.h).
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

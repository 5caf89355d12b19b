// DiffusionPipe as published (Tian et al., MLSys 2024, arXiv 2405.01248), as this project reads it:
// rebuilt from the paper's abstract and public descriptions, not from its code. [algorithms.md §4]
//
//   - The exact DP cuts the backbone for every D, S and M; its cut is used as it is, under 1F1B.
//   - A bubble is an interval in which the same d devices of a group idle; those under 10 ms are
//     skipped.
//   - A bubble is filled greedily: whole frozen layers at local batch B/d over the ready
//   components,
//     for the longest fill, then at most one layer on a partial batch of a listed size.
//   - What is left runs on all devices after the pipeline. All of it is the next step's work.
//
// Of all D, S and M, the shortest simulated step is kept. The publication is read as choosing among
// its DP's results, which leaves open how they are compared; a simulation can only help it. Its
// samples change devices between layers. The messages for that are part of the plan and of its
// step, which makes the reading slower than a publication that moves them for free. Frozen work
// runs in smaller pieces, or before the pipeline, if memory requires it or that is faster.
//
// `diffusionpipe` differs: it uses bubbles of any length, one device at a time, keeps a sample on
// one device, divides samples unevenly, takes one partial batch per chain, compares several
// packings, and improves its cuts by simulation. `//bench:fill_ablation` shows what each brings.
#include "baselines/registry.h"

namespace dpipe {
namespace {

NamedStrategy DiffusionPipePaper() {
  Strategy strategy = DefaultStrategy();
  strategy.set_name("diffusionpipe-paper");
  strategy.set_partitioner("by_bound");
  strategy.set_schedule("1f1b|cascaded");
  strategy.set_frozen("fill");
  strategy.set_fill_rule("published");
  strategy.set_min_bubble_us(10000);
  strategy.set_local_batches("4|8|12|16|24|32|48|64|96");
  return {StrategyFamily::kFilling, strategy,
          "whole frozen layers on the devices that idle together (DiffusionPipe, our reading)"};
}

REGISTER_STRATEGY(DiffusionPipePaper);

}  // namespace
}  // namespace dpipe

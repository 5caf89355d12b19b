// Squeezes a repeated building block of a V (v_schedule.h) into an order with a short warm-up and
// cool-down.      [algorithms.md §5; Qi et al., arXiv 2405.15362, section 3 and their released
// code]
//
// A block that keeps little has gaps between its passes, so that repeated blocks do not meet. Only
// the steady state needs them. The passes are on a grid of unit slots, by device:
//
//   1. Fill gaps with weight gradients, in the order of their input gradients.
//   2. Move every pass of the warm-up and of the cool-down to the first free slot that is after its
//      inputs and keeps within the block's memory, in the order of time.
//   3. Start every pass as early as its device's order allows.
//   4. Take the weight gradients out, and move the passes of the cool-down once more. For the
//      memory, weight gradients are counted in the first slots that are free.
//
// Warm-up ends when device 0 does its first gradient of stage 0; cool-down begins when it does its
// last forward pass of it.
#ifndef DPIPE_CORE_SCHEDULE_BUILDERS_V_BLOCK_SQUEEZE_H_
#define DPIPE_CORE_SCHEDULE_BUILDERS_V_BLOCK_SQUEEZE_H_

#include <array>
#include <vector>

#include "core/schedule/schedule.h"

namespace dpipe {

// By device i of p, the slots in which it does micro-batch 0: forward of stage i, forward of
// 2p-1-i, input gradient of 2p-1-i, input gradient of i. Micro-batch m follows `period` m later.
struct VBlockTimes {
  std::vector<std::array<int, 4>> offsets;
  int period = 6;
};

// By device, the forward passes and input gradients in the order that squeezing gives. Time is
// about O(slots log slots); what squeezing moves is in the warm-up and cool-down alone.
std::vector<std::vector<Slot>> SqueezeVBlock(const VBlockTimes& block, int num_micro_batches);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_BUILDERS_V_BLOCK_SQUEEZE_H_

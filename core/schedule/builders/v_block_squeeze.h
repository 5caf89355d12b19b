// Squeezes a repeated building block of a V (v_schedule.h) into an order with a short warm-up and
// cool-down.      [algorithms.md §5; Qi et al., arXiv 2405.15362, section 3 and their released
// code]
//
// A block with low memory has gaps between its passes, so that repeated blocks do not collide. Only
// the steady state needs these gaps. The passes are on a grid of unit slots, by device:
//
//   1. Fill gaps with weight gradients, in the order of their input gradients.
//   2. In time order, move every pass of the warm-up and of the cool-down to the first free slot
//      that is after its inputs and stays within the block's memory.
//   3. Start every pass as early as its device's order allows.
//   4. Remove the weight gradients, and move the passes of the cool-down once more. The memory is
//      computed as if weight gradients took the first free slots.
//
// Warm-up ends with device 0's first gradient of stage 0. Cool-down begins with its last forward
// pass of stage 0.
#ifndef DPIPE_CORE_SCHEDULE_BUILDERS_V_BLOCK_SQUEEZE_H_
#define DPIPE_CORE_SCHEDULE_BUILDERS_V_BLOCK_SQUEEZE_H_

#include <array>
#include <vector>

#include "core/schedule/schedule.h"

namespace dpipe {

// For device i of p, the slots of its four passes of micro-batch 0: forward of stage i, forward of
// 2p-1-i, input gradient of 2p-1-i, input gradient of i. Micro-batch m is `period` m slots later.
struct VBlockTimes {
  std::vector<std::array<int, 4>> offsets;
  int period = 6;
};

// Returns, by device, the squeezed order of the forward passes and input gradients. Takes about
// O(slots log slots): only passes of the warm-up and cool-down are moved.
std::vector<std::vector<Slot>> SqueezeVBlock(const VBlockTimes& block, int num_micro_batches);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_BUILDERS_V_BLOCK_SQUEEZE_H_

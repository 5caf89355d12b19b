// The orders of the 1F1B family: run some forward passes ahead, then one forward and one backward
// pass in turn, then the backward passes that are left. 1f1b, eager-1f1b, zb-h1 and zb-h2 differ in
// how far a stage runs ahead, and in when its weight gradients come. [algorithms.md §5]
#ifndef DPIPE_CORE_SCHEDULE_BUILDERS_RUN_AHEAD_H_
#define DPIPE_CORE_SCHEDULE_BUILDERS_RUN_AHEAD_H_

#include <vector>

#include "core/schedule/schedule.h"

namespace dpipe {

// Joint backward passes; `ahead` forward passes (or all there are) come before the first pair.
std::vector<Slot> RunAheadSlots(int ahead, int num_micro_batches);

// Split ones: the weight gradient of micro-batch m follows the input gradient of m + weight_delay,
// those that are left come last. Keeps at most ahead + 1 + weight_delay micro-batches.
std::vector<Slot> SplitRunAheadSlots(int ahead, int weight_delay, int num_micro_batches);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_BUILDERS_RUN_AHEAD_H_

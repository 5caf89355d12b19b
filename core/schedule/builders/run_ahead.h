// The 1F1B family of orders: some forward passes run ahead, then forward and backward passes
// alternate, then the remaining backward passes. 1f1b, eager-1f1b, zb-h1 and zb-h2 differ in how
// far a stage runs ahead, and in when its weight gradients run. [algorithms.md §5]
#ifndef DPIPE_CORE_SCHEDULE_BUILDERS_RUN_AHEAD_H_
#define DPIPE_CORE_SCHEDULE_BUILDERS_RUN_AHEAD_H_

#include <vector>

#include "core/schedule/schedule.h"

namespace dpipe {

// Returns an order with joint backward passes; min(ahead, m) forward passes precede the first
// pair.
std::vector<Slot> RunAheadSlots(int ahead, int num_micro_batches);

// Returns an order with split backward passes. The weight gradient of micro-batch m follows the
// input gradient of m + weight_delay; the remaining ones come last. Keeps at most
// ahead + 1 + weight_delay micro-batches.
std::vector<Slot> SplitRunAheadSlots(int ahead, int weight_delay, int num_micro_batches);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_BUILDERS_RUN_AHEAD_H_

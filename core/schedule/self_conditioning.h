// Adds self-conditioning to any schedule.
//
// A step with self-conditioning runs every micro-batch through the backbone once without gradients,
// and feeds the result into the pass that trains. Each chain of S stages becomes one of 2S. The
// first S stages, the first lap, are forward-only; they are on the same devices as the second S
// stages and share their weights. [algorithms.md §2]
//
// The passes of the given schedule keep their order on every device, and so their memory peaks. A
// simulation places the forward-only passes between them:
//   1. A forward-only pass goes first while it is less than `lead` micro-batches ahead of its
//      second lap on the same device. Otherwise it runs only when the device would be idle.
//   2. Several leads are tried, from one micro-batch (the first lap fills gaps) to all of them (the
//      whole first lap, then the schedule).
//   3. The smallest makespan wins, then the smallest lead.
//
// With m micro-batches, v stages per device and equal forward times F, the first lap adds at most
// m v F to the makespan: on each device, the second lap starts when the first one ends.
#ifndef DPIPE_CORE_SCHEDULE_SELF_CONDITIONING_H_
#define DPIPE_CORE_SCHEDULE_SELF_CONDITIONING_H_

#include <vector>

#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// Returns the schedule with self-conditioning, under the same name. `costs` are by stage of the
// result: chain by chain, with the forward-only stages of a chain first. Empty means F = I = W = 1.
// InvalidArgument if their number is wrong, or if the schedule already has forward-only stages.
// Time O(leads x slots x log devices).
absl::StatusOr<Schedule> WithSelfConditioning(const Schedule& schedule,
                                              const std::vector<PassCosts>& costs);

// Returns the part of `costs`, given as above, that belongs to the stages of `schedule`.
absl::StatusOr<std::vector<PassCosts>> CostsOfSecondLap(const Schedule& schedule,
                                                        const std::vector<PassCosts>& costs);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_SELF_CONDITIONING_H_

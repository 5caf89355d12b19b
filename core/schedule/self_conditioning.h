// Self-conditioning on top of any schedule.
//
// A step with self-conditioning passes every micro-batch through the backbone once without
// gradient, and feeds the result into the pass that trains. Each chain of S stages becomes one of
// 2S: the first S, forward only, lie on the same devices and share the weights of the second S.
// [algorithms.md §2]
//
// The passes of the given schedule keep their order on every device, and with it their peaks; the
// forward-only ones are put between them by simulation. A forward-only pass goes first while it is
// less than a given number of micro-batches ahead of its second lap on the same device, and else
// only where the device would wait. Several such leads are tried, from one micro-batch (the first
// lap fills gaps) to all of them (the first lap of everything, then the schedule), and the smallest
// makespan wins, then the smallest lead. With equal costs the whole first lap adds no more than
// m v F to the makespan, v stages a device: the second lap starts on each device when the first one
// ends.
#ifndef DPIPE_CORE_SCHEDULE_SELF_CONDITIONING_H_
#define DPIPE_CORE_SCHEDULE_SELF_CONDITIONING_H_

#include <vector>

#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// `costs`: by stage of the result, chain by chain, the forward-only stages of a chain first; empty:
// F = I = W = 1. InvalidArgument if there is another number of them, or if the schedule has
// forward-only stages already. Keeps the name. Time O(leads x slots x log devices).
absl::StatusOr<Schedule> WithSelfConditioning(const Schedule& schedule,
                                              const std::vector<PassCosts>& costs);

// The part of `costs`, which is as above, that belongs to the stages of `schedule`.
absl::StatusOr<std::vector<PassCosts>> CostsOfSecondLap(const Schedule& schedule,
                                                        const std::vector<PassCosts>& costs);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_SELF_CONDITIONING_H_

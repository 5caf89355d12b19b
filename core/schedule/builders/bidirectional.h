// Bidirectional schedules of one backbone. Two chains run on the same devices in opposite
// directions. Each has its own copy of the weights and half of the micro-batches, so each fills the
// warm-up and cool-down of the other. Backward passes are joint. [algorithms.md §5]
#ifndef DPIPE_CORE_SCHEDULE_BUILDERS_BIDIRECTIONAL_H_
#define DPIPE_CORE_SCHEDULE_BUILDERS_BIDIRECTIONAL_H_

#include <string>

#include "core/base/status.h"
#include "core/schedule/generators.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// Returns the schedule with the smallest makespan among the simulated orders below. `down` is the
// first chain; its number of micro-batches is replaced by half of the request's.
//
// Every simulation runs the lowest micro-batch first in either direction, and prefers a backward
// pass to a forward pass of the same micro-batch number. The orders tried are:
//   1. F = B and no limit. Let L be the maximum number of (stage, micro-batch) pairs per device.
//      Without costs, and if peak_limit does not exclude it, this order is the result.
//   2. At the costs of the request (F = B if there are none), with at most min(L, peak_limit) pairs
//      per device.
//   3. As 2, with L + L/2 pairs and without a limit; or, if peak_limit > L, with peak_limit pairs.
//      If B > F, more pairs close the gaps between units.
//
// InvalidArgument if the number of devices or micro-batches is odd, if the costs do not cover all
// stages, or if every order keeps more than request.peak_limit pairs on some device.
absl::StatusOr<Schedule> MakeBidirectional(const std::string& name, const ScheduleChain& down,
                                           const ScheduleRequest& request);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_BUILDERS_BIDIRECTIONAL_H_

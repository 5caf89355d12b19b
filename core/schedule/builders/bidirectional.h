// Schedules of one backbone in two directions: two chains with a copy of the weights each, the
// second on the first one's devices in reverse, each with half of the micro-batches, so that one
// fills the ramps of the other. Backward passes are joint. [algorithms.md §5]
#ifndef DPIPE_CORE_SCHEDULE_BUILDERS_BIDIRECTIONAL_H_
#define DPIPE_CORE_SCHEDULE_BUILDERS_BIDIRECTIONAL_H_

#include <string>

#include "core/base/status.h"
#include "core/schedule/generators.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// `down`: the first chain; its micro-batches are set to half of the request's.
//
// Without costs the order is that of a simulation with F = B in which the lowest micro-batch goes
// first, whichever its direction, and a backward pass before a forward pass of the same one. With
// costs it is the shortest of that order and of those that the same rule gives in a simulation at
// the costs, with as many pairs kept on a device as the former keeps, half as many again, and any
// number: where B > F, more pairs close the gaps between units.
//
// InvalidArgument if the devices or micro-batches are not even in number, if the costs are not of
// all stages, or if a device would keep more than request.peak_limit pairs of (stage, micro-batch)
// in all of these orders.
absl::StatusOr<Schedule> MakeBidirectional(const std::string& name, const ScheduleChain& down,
                                           const ScheduleRequest& request);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_BUILDERS_BIDIRECTIONAL_H_

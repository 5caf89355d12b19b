// Orders weight gradients against frozen work.                                 [algorithms.md §4]
//
// In schedules that split the backward pass, weight gradients depend only on their input gradients.
// They therefore compete with frozen work for the same gaps. Simulation decides which of the two
// gets a gap: this file generates schedules that differ from a given one only in the positions of
// the weight gradients. The caller fills each of them and keeps the best.
//
// Orders generated in addition to the schedule itself:
//   delayed by k   a weight gradient runs once k others of its device are ready and waiting: at
//                  once for k = 0 (like a joint backward pass), at the end for the largest k
//   fitted         the other passes keep their start times from the order with all weight gradients
//                  at the end. Weight gradients fill the gaps between them, but only gaps up to a
//                  given length; the rest run at the end. This uses up small gaps, in which little
//                  frozen work fits at an efficient batch, and leaves large gaps free
// In every order, a forward pass that would exceed the limit of kept pairs is preceded by waiting
// weight gradients, until there is room.
#ifndef DPIPE_CORE_PLANNER_FILL_WEIGHT_ORDER_H_
#define DPIPE_CORE_PLANNER_FILL_WEIGHT_ORDER_H_

#include <vector>

#include "core/schedule/schedule.h"

namespace dpipe {

struct WeightOrderOptions {
  std::vector<PassCosts> costs = {};  // by stage; empty: F = I = W = 1
  // By device: maximum number of (stage, micro-batch) pairs kept; empty: no limits; 0: no limit for
  // that device.
  std::vector<int> device_limits = {};
};

// Returns the schedule itself and then the other orders, about ten in total, without duplicates.
// All other orders are valid schedules within the limits. Returns only the schedule if it splits no
// backward pass. Time O(slots x (gaps of a device + stages)).
std::vector<Schedule> WeightOrders(const Schedule& schedule, const WeightOrderOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_WEIGHT_ORDER_H_

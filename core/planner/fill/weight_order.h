// Weight gradients ordered against frozen work.                                [algorithms.md §4]
//
// In schedules that split the backward pass, weight gradients wait for nothing but their input
// gradients, and so compete with frozen work for the same gaps. Which of the two should have a gap
// is found by simulation: this makes schedules that differ from a given one in where the weight
// gradients stand, and nothing else; the caller fills each and keeps the best.
//
// Beside the schedule itself:
//   delayed by k   a weight gradient runs once k others of its device are ready and waiting: at
//                  once for k = 0 (the joint backward pass), at the end for the largest k
//   fitted         the other passes keep the times that they have if no weight gradient comes
//                  before them; weight gradients go where they fit between these, but only in gaps
//                  of at most a given length; the rest waits for the end. Small gaps, in which
//                  little frozen work fits at an efficient batch, are used up and large ones left
// A pass that must wait for room under the limit of kept pairs has the waiting weight gradients
// before it in every order.
#ifndef DPIPE_CORE_PLANNER_FILL_WEIGHT_ORDER_H_
#define DPIPE_CORE_PLANNER_FILL_WEIGHT_ORDER_H_

#include <vector>

#include "core/schedule/schedule.h"

namespace dpipe {

struct WeightOrderOptions {
  std::vector<PassCosts> costs = {};  // by stage; empty: F = I = W = 1
  // By device: the most (stage, micro-batch) pairs kept; empty: no limits; 0: none for that one.
  std::vector<int> device_limits = {};
};

// The schedule itself, then the other orders, each a valid schedule within the limits, none twice;
// the schedule alone where it splits no backward pass. About ten. Time O(slots x (gaps of a device
// + stages)).
std::vector<Schedule> WeightOrders(const Schedule& schedule, const WeightOrderOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_WEIGHT_ORDER_H_

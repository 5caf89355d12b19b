// Orders of the passes found by trying many list schedules.                     [algorithms.md §5]
//
// A list schedule (list_schedule.h) is as good as its priorities. Those tried here are
//
//   priority = remaining path - age * micro-batch + offset of (backbone, pass)
//
// for forward passes and input gradients (or joint backward passes), weight gradients last, with an
// age a backbone; known rules are among them (gradients first, the oldest first, one backbone
// before another). From the best of a few such rules the numbers are changed a few at a time at
// random, and what shortens the makespan is kept: a search with a fixed seed, so that the same
// request has the same answer.
#ifndef DPIPE_CORE_SCHEDULE_TUNING_TUNE_ORDER_H_
#define DPIPE_CORE_SCHEDULE_TUNING_TUNE_ORDER_H_

#include <vector>

#include "core/schedule/schedule.h"

namespace dpipe {

struct TuneOrderOptions {
  std::vector<PassCosts> costs;  // by stage of the schedule
  // By device: the most (stage, micro-batch) pairs kept; an element 0: no limit. Empty: what the
  // schedule itself keeps.
  std::vector<int> device_limits = {};
  int max_tried = 100;
};

// The schedule itself, or an order of the same passes with a smaller makespan at these costs.
// Passes are split where the schedule splits any. Time: `max_tried` list schedules.
Schedule TuneOrder(const Schedule& schedule, const TuneOrderOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TUNING_TUNE_ORDER_H_

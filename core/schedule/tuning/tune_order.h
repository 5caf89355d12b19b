// Random search over list schedules for a shorter order of the passes.          [algorithms.md §5]
//
// A list schedule (list_schedule.h) is only as good as its priorities. Those tried here are
//
//   priority = remaining path - age * micro-batch + offset of (backbone, pass)
//
// for forward passes and input gradients (or joint backward passes), with one age per backbone;
// weight gradients come last. Known rules are special cases: gradients first, the oldest first, one
// backbone before another. The search starts from the best of a few such rules, changes some of the
// numbers at random, and keeps what shortens the makespan. The seed is fixed, so the same request
// has the same result.
#ifndef DPIPE_CORE_SCHEDULE_TUNING_TUNE_ORDER_H_
#define DPIPE_CORE_SCHEDULE_TUNING_TUNE_ORDER_H_

#include <vector>

#include "core/schedule/schedule.h"

namespace dpipe {

struct TuneOrderOptions {
  std::vector<PassCosts> costs;  // by stage of the schedule
  // By device: the maximum number of (stage, micro-batch) pairs kept, 0 for no limit. Empty: what
  // the schedule itself keeps.
  std::vector<int> device_limits = {};
  int max_tried = 100;
};

// Returns the schedule itself, or an order of the same passes with a smaller makespan at these
// costs. If the schedule splits any backward pass, all of them are split in the new order. Time:
// `max_tried` list schedules.
Schedule TuneOrder(const Schedule& schedule, const TuneOrderOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TUNING_TUNE_ORDER_H_

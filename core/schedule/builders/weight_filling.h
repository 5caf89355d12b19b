// Where weight gradients go when the order of everything else is given: each device takes its
// forward passes and input gradients in that order, and a weight-gradient pass (of the gradient
// that has waited longest) whenever it would otherwise wait for data or for room.
//
// This is the second half of how building blocks become schedules: repeating a block gives the
// order, and starting every pass as early as that order allows squeezes the empty slots of warm-up
// and cool-down out. [algorithms.md §5; Qi et al., Pipeline Parallelism with Controllable Memory,
// arXiv 2405.15362, section 3]
#ifndef DPIPE_CORE_SCHEDULE_BUILDERS_WEIGHT_FILLING_H_
#define DPIPE_CORE_SCHEDULE_BUILDERS_WEIGHT_FILLING_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace dpipe {

struct WeightFillingOptions {
  std::vector<PassCosts> costs = {};  // by stage; empty: F = I = W = 1
  // The most (stage, micro-batch) pairs kept on a device, forward pass to weight gradient; 0: no
  // limit.
  int device_limit = 0;
  // A weight gradient is put off while the next pass is known to become ready within this part of
  // the weight gradient's time. 0: a free device never waits for a pass that is not ready.
  double patience = 0;
};

// `order`: by device, forward and input-gradient slots. InvalidArgument if the limit or the order
// itself lets no device go on, or if the result is no schedule. Time O(slots log slots).
absl::StatusOr<Schedule> FillWeightGradients(const std::string& name,
                                             const std::vector<ScheduleChain>& chains,
                                             const std::vector<std::vector<Slot>>& order,
                                             const WeightFillingOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_BUILDERS_WEIGHT_FILLING_H_

// Places weight gradients when the order of everything else is given. Each device takes its forward
// passes and input gradients in that order. Whenever it would otherwise wait for data or for room,
// it runs a weight-gradient pass: that of the gradient that has waited longest.
//
// This is the second half of turning building blocks into schedules. Repeating a block gives the
// order; starting every pass as early as the order allows squeezes out the empty slots of warm-up
// and cool-down. [algorithms.md §5; Qi et al., Pipeline Parallelism with Controllable Memory, arXiv
// 2405.15362, section 3]
#ifndef DPIPE_CORE_SCHEDULE_BUILDERS_WEIGHT_FILLING_H_
#define DPIPE_CORE_SCHEDULE_BUILDERS_WEIGHT_FILLING_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace dpipe {

struct WeightFillingOptions {
  std::vector<PassCosts> costs = {};  // by stage; empty: F = I = W = 1
  // The maximum number of (stage, micro-batch) pairs that a device keeps, from forward pass to
  // weight gradient; 0 means no limit.
  int device_limit = 0;
  // A weight gradient is delayed if the next pass is known to become ready within this fraction of
  // the weight gradient's time. 0: a device never idles while a weight gradient is ready.
  double patience = 0;
};

// Returns the completed schedule. `order` is, by device, the forward and input-gradient slots.
// InvalidArgument if no device can continue within the limit and the order, or if the result fails
// Schedule::Verify. Time O(slots log slots).
absl::StatusOr<Schedule> FillWeightGradients(const std::string& name,
                                             const std::vector<ScheduleChain>& chains,
                                             const std::vector<std::vector<Slot>>& order,
                                             const WeightFillingOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_BUILDERS_WEIGHT_FILLING_H_

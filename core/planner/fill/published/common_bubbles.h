// Intervals in which the same devices of a pipeline group idle at once.            [algorithms.md
// §4]
#ifndef DPIPE_CORE_PLANNER_FILL_PUBLISHED_COMMON_BUBBLES_H_
#define DPIPE_CORE_PLANNER_FILL_PUBLISHED_COMMON_BUBBLES_H_

#include <vector>

#include "core/base/time.h"
#include "core/planner/fill/idle_intervals.h"

namespace dpipe {

struct CommonBubble {
  Nanos start_ns = 0;
  Nanos end_ns = 0;
  std::vector<int> devices;  // increasing
  std::vector<int> before;   // by element of `devices`: the instruction that ends its idle interval

  Nanos length_ns() const { return end_ns - start_ns; }
};

// Returns the maximal intervals in which the set of idle devices, given with their idle intervals
// in time order, does not change and is not empty; in time order. Time O(intervals * devices).
std::vector<CommonBubble> CommonBubbles(const std::vector<std::vector<IdleInterval>>& by_device);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_PUBLISHED_COMMON_BUBBLES_H_

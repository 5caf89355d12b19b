#include "core/planner/fill/published/common_bubbles.h"

#include <algorithm>
#include <utility>

namespace dpipe {

std::vector<CommonBubble> CommonBubbles(const std::vector<std::vector<IdleInterval>>& by_device) {
  std::vector<Nanos> times;
  for (const std::vector<IdleInterval>& intervals : by_device) {
    for (const IdleInterval& interval : intervals) {
      times.push_back(interval.start_ns);
      times.push_back(interval.end_ns);
    }
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  std::vector<CommonBubble> bubbles;
  std::vector<size_t> next(by_device.size(), 0);
  for (size_t t = 0; t + 1 < times.size(); ++t) {
    CommonBubble bubble;
    bubble.start_ns = times[t];
    bubble.end_ns = times[t + 1];
    for (size_t d = 0; d < by_device.size(); ++d) {
      const std::vector<IdleInterval>& intervals = by_device[d];
      while (next[d] < intervals.size() && intervals[next[d]].end_ns <= times[t]) ++next[d];
      if (next[d] == intervals.size() || intervals[next[d]].start_ns > times[t]) continue;
      bubble.devices.push_back(static_cast<int>(d));
      bubble.before.push_back(intervals[next[d]].instruction);
    }
    if (!bubble.devices.empty()) bubbles.push_back(std::move(bubble));
  }
  return bubbles;
}

}  // namespace dpipe

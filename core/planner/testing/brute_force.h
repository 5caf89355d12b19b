// Every contiguous partition of a small chain, for tests.
#ifndef DPIPE_CORE_PLANNER_TESTING_BRUTE_FORCE_H_
#define DPIPE_CORE_PLANNER_TESTING_BRUTE_FORCE_H_

#include <functional>
#include <vector>

#include "core/base/range.h"

namespace dpipe {

// Calls `visit` with every cut of layers [0, num_layers) into num_stages non-empty ranges, in
// lexicographic order of the cuts.
inline void ForEachPartition(int num_layers, int num_stages,
                             const std::function<void(const std::vector<LayerRange>&)>& visit) {
  std::vector<LayerRange> stages;
  const std::function<void(int)> extend = [&](int begin) {
    const int left = num_stages - static_cast<int>(stages.size());
    if (left == 0) return visit(stages);
    const int last = left == 1 ? num_layers : num_layers - left + 1;
    for (int end = left == 1 ? num_layers : begin + 1; end <= last; ++end) {
      stages.push_back({begin, end});
      extend(end);
      stages.pop_back();
    }
  };
  if (num_stages >= 1 && num_stages <= num_layers) extend(0);
}

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_TESTING_BRUTE_FORCE_H_

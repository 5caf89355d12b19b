#include "core/planner/partition/solvers/min_max.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace dpipe {

std::vector<LayerRange> MinimizeLargestStage(
    int num_layers, int num_stages, const std::function<int64_t(int stage, LayerRange)>& cost) {
  const int64_t infinity = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> next(num_layers + 1, infinity);
  next[num_layers] = 0;
  std::vector<std::vector<int>> end(num_stages, std::vector<int>(num_layers, 0));
  for (int s = num_stages - 1; s >= 0; --s) {
    std::vector<int64_t> best(num_layers + 1, infinity);
    for (int i = s; i < num_layers; ++i) {
      const int last = num_layers - (num_stages - 1 - s);
      for (int j = s == num_stages - 1 ? num_layers : i + 1; j <= last; ++j) {
        const int64_t here = cost(s, {i, j});
        if (here >= best[i]) break;  // longer stages cost more
        if (next[j] >= best[i]) continue;
        best[i] = std::max(here, next[j]);
        end[s][i] = j;
      }
    }
    next = std::move(best);
  }
  std::vector<LayerRange> stages;
  for (int s = 0, i = 0; s < num_stages; ++s) {
    stages.push_back({i, end[s][i]});
    i = end[s][i];
  }
  return stages;
}

}  // namespace dpipe

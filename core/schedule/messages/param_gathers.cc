#include "core/schedule/messages/param_gathers.h"

#include <algorithm>
#include <set>

namespace dpipe {

std::vector<PassGathers> PlanGathers(const std::vector<int>& parts, bool once) {
  const int count = static_cast<int>(parts.size());
  std::vector<PassGathers> gathers(count);
  std::set<int> held;
  for (int i = 0; i < count; ++i) {
    for (int ahead = i; ahead < count && ahead <= i + 1; ++ahead) {
      if (held.insert(parts[ahead]).second) gathers[i].before.push_back(ahead);
    }
    const int horizon = once ? count : std::min(count, i + 3);
    const auto next = parts.begin() + i + 1, end = parts.begin() + horizon;
    if (std::find(next, end, parts[i]) != end) continue;
    gathers[i].release = true;
    held.erase(parts[i]);
  }
  return gathers;
}

int64_t GatheredBytes(const CostModel& cost, int component, LayerRange layers, bool keeps_frozen) {
  const int64_t masters =
      keeps_frozen ? cost.GradientBytes(component, layers) : cost.ParameterBytes(component, layers);
  return cost.profile().dtype() == "bf16" ? masters / 2 : masters;
}

}  // namespace dpipe

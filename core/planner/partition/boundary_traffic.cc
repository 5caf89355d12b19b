#include "core/planner/partition/boundary_traffic.h"

namespace dpipe {

std::vector<BoundaryTraffic> TrafficOf(const std::vector<ChainValue>& values,
                                       const std::vector<LayerRange>& stages,
                                       const std::vector<int>& device_of) {
  const int num_stages = static_cast<int>(stages.size());
  std::vector<int> stage_of(stages.back().end);
  for (int s = 0; s < num_stages; ++s) {
    for (int l = stages[s].begin; l < stages[s].end; ++l) stage_of[l] = s;
  }
  std::vector<BoundaryTraffic> traffic(num_stages);  // first the change at each boundary
  for (const ChainValue& value : values) {
    const int made = stage_of[value.producer];
    int last = made;  // the last reader on another device
    for (int reader : value.consumers) {
      if (device_of[stage_of[reader]] != device_of[made]) last = stage_of[reader];
    }
    if (last == made) continue;
    traffic[made].forward_bytes += value.bytes_per_sample;
    traffic[last].forward_bytes -= value.bytes_per_sample;
    if (!value.has_gradient) continue;
    traffic[made].gradient_bytes += value.bytes_per_sample;
    traffic[last].gradient_bytes -= value.bytes_per_sample;
  }
  for (int s = 1; s < num_stages; ++s) {
    traffic[s].forward_bytes += traffic[s - 1].forward_bytes;
    traffic[s].gradient_bytes += traffic[s - 1].gradient_bytes;
  }
  traffic.resize(num_stages - 1);
  return traffic;
}

}  // namespace dpipe

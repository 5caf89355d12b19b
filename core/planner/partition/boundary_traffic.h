// Bytes that cross stage boundaries if skips may stay on their device.
//
// A value made in stage a crosses the boundary between stages k and k+1 (a <= k) if a stage after k
// on another device than a's reads it. Readers on a's own device use the copy that stayed there. So
// a U-Net skip with both ends on one device crosses nothing.
#ifndef DPIPE_CORE_PLANNER_PARTITION_BOUNDARY_TRAFFIC_H_
#define DPIPE_CORE_PLANNER_PARTITION_BOUNDARY_TRAFFIC_H_

#include <cstdint>
#include <vector>

#include "core/base/range.h"
#include "core/planner/partition/stage_costs.h"

namespace dpipe {

struct BoundaryTraffic {
  int64_t forward_bytes = 0;   // per sample
  int64_t gradient_bytes = 0;  // per sample, backward
};

// Returns the traffic by boundary: [k] is between stages k and k+1 of the chain; one entry less
// than stages. `device_of`: by stage. O(layers + readers of values + stages).
std::vector<BoundaryTraffic> TrafficOf(const std::vector<ChainValue>& values,
                                       const std::vector<LayerRange>& stages,
                                       const std::vector<int>& device_of);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_BOUNDARY_TRAFFIC_H_

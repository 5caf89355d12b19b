// What crosses from stage to stage where skips may stay on their device.
//
// A value made in stage a crosses the boundary between stages k and k+1 (a <= k) if some stage
// after k that lies on another device than a reads it; readers on a's own device take the copy that
// stayed there. So a U-Net's skip whose two ends share a device crosses nothing.
#ifndef DPIPE_CORE_PLANNER_PARTITION_BOUNDARY_TRAFFIC_H_
#define DPIPE_CORE_PLANNER_PARTITION_BOUNDARY_TRAFFIC_H_

#include <cstdint>
#include <vector>

#include "core/base/range.h"
#include "core/planner/partition/stage_costs.h"

namespace dpipe {

struct BoundaryTraffic {
  int64_t forward_bytes = 0;   // a sample
  int64_t gradient_bytes = 0;  // a sample, back
};

// By boundary: [k] is between stages k and k+1 of the chain, one less than stages. `device_of`: by
// stage. O(layers + readers of values + stages).
std::vector<BoundaryTraffic> TrafficOf(const std::vector<ChainValue>& values,
                                       const std::vector<LayerRange>& stages,
                                       const std::vector<int>& device_of);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_BOUNDARY_TRAFFIC_H_

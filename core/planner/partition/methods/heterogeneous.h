// Orders unlike devices and cuts the layers to match, after EdgePipe (Hu et al., arXiv 2110.14895):
// dynamic programming over layers, the multiset of devices used and the class of the device used
// last,
//
//   h(i, used, u) = the minimum largest time of a stage or link of layers [0, i) on `used`, with
//                   the last stage on a device of class u
//
// Devices of a class (equal times and memory) are used in rank order, so the counts determine the
// device, and links are those between the actual ranks. The cuts are then those of minimum T_max
// for that order and for the devices' own order (straight.h); the better is kept. So the result is
// never worse than `balanced`. The order and its cuts minimise EdgePipe's objective, the slowest
// stage or link, exactly; the final cuts may trade it for gradient sync.
//
// Deviations: every device is used, one per stage. Straight pipelines only, with equal replicas,
// which are kept (a stage's ranks are neighbours). If the classes have more than 4096 multisets,
// the devices keep their order, and Partition.note says so.
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_HETEROGENEOUS_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_HETEROGENEOUS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

// Partition.seats follows the chosen order: first ranks need not increase.
absl::StatusOr<Partition> PartitionHeterogeneous(const PartitionProblem& problem);

struct DeviceOrder {
  Nanos largest = 0;             // maximum over stages and links
  std::vector<int> first_ranks;  // by device; empty if nothing fits
  std::vector<LayerRange> stages;
};

// Returns the order with the minimum largest stage or link.
DeviceOrder MinBottleneckOrder(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_HETEROGENEOUS_H_

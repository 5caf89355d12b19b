// The order of unlike devices, and the cuts that go with it, after EdgePipe (Hu et al., arXiv
// 2110.14895): dynamic programming over layers, the multiset of devices used and the device used
// last,
//
//   h(i, used, u) = the least largest time of a stage or link of layers [0, i) on `used`, the last
//                   stage on a device of class u
//
// Devices of a class (alike in time and memory) are used in rank order, so the counts name the
// device, and links are those between the very ranks. The cuts are then those of least T_max for
// that order and for the devices' own one (straight.h), of which the better is kept: never worse
// than `balanced`. EdgePipe's objective, the slowest stage or link, is met exactly by the order and
// its cuts; the cuts kept may trade it for gradient sync.
//
// Deviations: every device is used, as the number of stages says. Straight pipelines only, with
// equal replicas (a stage's ranks neighbour each other), which stay. Where the classes leave more
// than 4096 multisets the devices keep their order, which Partition.note says.
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_HETEROGENEOUS_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_HETEROGENEOUS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

// Partition.seats has the devices' order: their first ranks need not increase.
absl::StatusOr<Partition> PartitionHeterogeneous(const PartitionProblem& problem);

struct DeviceOrder {
  Nanos largest = 0;             // over stages and links
  std::vector<int> first_ranks;  // by device; empty if nothing fits
  std::vector<LayerRange> stages;
};

// The order of the least largest stage or link.
DeviceOrder LeastBottleneckOrder(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_HETEROGENEOUS_H_

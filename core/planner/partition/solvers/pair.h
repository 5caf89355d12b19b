// Partitions two backbones that share the devices in opposite directions. [algorithms.md §3]
//
// Stage s of the *down* backbone and stage P-1-s of the *up* backbone are on device s, so one fills
// the other's ramps. The cuts minimise, exactly unless there are very many layers and devices, and
// under the devices' memory limits (nested.h), the maximum over devices and links of
//
//   M_down * (down's time per micro-batch) + M_up * (up's time per micro-batch)
//
// A link counts for its own backbone only. The bound is that of partition.h for M_down + M_up
// micro-batches of the average load. It is an estimate, since the two backbones' passes need not
// fit between each other.
#ifndef DPIPE_CORE_PLANNER_PARTITION_SOLVERS_PAIR_H_
#define DPIPE_CORE_PLANNER_PARTITION_SOLVERS_PAIR_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

struct PairProblem {
  // Not owned. What a device keeps in addition to its stages must be in down's memory only. The
  // limits are down's.
  const StageCosts* down = nullptr;
  const StageCosts* up = nullptr;
  int num_down_micro_batches = 1;
  int num_up_micro_batches = 1;
  std::vector<int> replicas;  // by device
  bool recompute = false;     // recompute every stage of both

  int num_devices() const { return static_cast<int>(replicas.size()); }
};

struct PairPartition {
  std::vector<LayerRange> down, up;  // by stage of each backbone
  std::vector<DeviceSeat> seats;     // by device
  Nanos largest_load_ns = 0;         // per step
  Nanos exposed_sync_ns = 0;
  Nanos bound_ns = 0;
};

// Returns InvalidArgument if a backbone has fewer layers than there are devices or a micro-batch
// does not divide, and ResourceExhausted, naming a device and both values, if nothing fits.
absl::StatusOr<PairPartition> PartitionPair(const PairProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_SOLVERS_PAIR_H_

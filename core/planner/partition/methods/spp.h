// "SPP-style" partition, after SPP (Luo et al., "Efficient Pipeline Planning for Expedited
// Distributed DNN Training", arXiv 2204.10562): chooses layers and replicas of every stage by
// dynamic programming to minimise the largest work of a step, with
//
//   work of a stage   M (compute per micro-batch) + all-reduce
//   work of a channel M (activations and gradients of a micro-batch)
//
// SPP first orders the devices by recursive minimum cuts of the bandwidth graph. The clusters here
// have two kinds of links, within nodes and between them, and ranks are numbered node by node.
// Recursive minimum cuts split no node before all nodes are apart, so rank order is such an order
// and is kept. SPP's list scheduling of ready queues is not part of the partition. In addition, the
// devices' memory limits hold. Straight pipelines only. Replicas are chosen only if the problem
// allows it. Exact for its objective (replicated.h).
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_SPP_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_SPP_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionSpp(const PartitionProblem& problem);

// Returns the objective above.
Nanos SppCost(const PartitionProblem& problem, const std::vector<LayerRange>& stages,
              const std::vector<DeviceSeat>& seats);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_SPP_H_

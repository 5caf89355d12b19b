// "SPP-style" partition, after SPP (Luo et al., "Efficient Pipeline Planning for Expedited
// Distributed DNN Training", arXiv 2204.10562): layers and replicas of every stage by dynamic
// programming, so that the largest work of a step is least, where
//
//   work of a stage   M (compute per micro-batch) + all-reduce
//   work of a channel M (activations and gradients of a micro-batch)
//
// SPP orders the devices by recursive minimum cuts of the bandwidth graph first. The clusters here
// have two kinds of links, within nodes and between them, and ranks are numbered node by node:
// recursive minimum cuts never split a node before the nodes are apart, so rank order is such an
// order and is kept. SPP's list scheduling of ready queues is no part of the partition. Added: the
// devices' memory. Straight pipelines only; the replicas are the problem's unless it lets them be
// chosen. Exact for its objective (replicated.h).
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_SPP_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_SPP_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionSpp(const PartitionProblem& problem);

// Its objective.
Nanos SppCost(const PartitionProblem& problem, const std::vector<LayerRange>& stages,
              const std::vector<DeviceSeat>& seats);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_SPP_H_

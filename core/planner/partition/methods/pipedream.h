// PipeDream's partition (Harlap et al., arXiv 1806.03377): layers and replicas of every stage, so
// that the slowest stage or link is as quick as possible.
//
//   A(j, m) = min over i, r of max(A(i, m - r), 2 a_i / bandwidth,
//                                  (T(i..j) + 4 (r-1) P / (bandwidth r)) / r)
//
// Here with a given number of stages, and: T(i..j)/r is the profile's time at the local batch b/r
// (replicas of a stage share every micro-batch; PipeDream's take turns); the all-reduce is the cost
// model's for all pipeline groups, divided by r as in the formula, although a synchronous step pays
// it once, not with every micro-batch: that is the objective of a system that updates its weights
// all the time. Added: the devices' memory. Straight pipelines only; the replicas are the
// problem's unless it lets them be chosen. Exact (replicated.h).
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_PIPEDREAM_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_PIPEDREAM_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionPipeDream(const PartitionProblem& problem);

// Its objective.
Nanos PipeDreamCost(const PartitionProblem& problem, const std::vector<LayerRange>& stages,
                    const std::vector<DeviceSeat>& seats);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_PIPEDREAM_H_

// PipeDream's partition (Harlap et al., arXiv 1806.03377): chooses layers and replicas of every
// stage to minimise the time of the slowest stage or link.
//
//   A(j, m) = min over i, r of max(A(i, m - r), 2 a_i / bandwidth,
//                                  (T(i..j) + 4 (r-1) P / (bandwidth r)) / r)
//
// Deviations: the number of stages is given. T(i..j)/r is the profile's time at the local batch
// b/r: replicas of a stage share every micro-batch, while PipeDream's take turns. The all-reduce is
// the cost model's for all pipeline groups, divided by r as in the formula. A synchronous step pays
// it once, not with every micro-batch; the formula is for a system that updates its weights all the
// time. The devices' memory limits hold. Straight pipelines only. Replicas are chosen only if the
// problem allows it. Exact (replicated.h).
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_PIPEDREAM_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_PIPEDREAM_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionPipeDream(const PartitionProblem& problem);

// Returns the objective above.
Nanos PipeDreamCost(const PartitionProblem& problem, const std::vector<LayerRange>& stages,
                    const std::vector<DeviceSeat>& seats);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_PIPEDREAM_H_

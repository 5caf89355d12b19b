// The planner's own partitioner: as even as possible. [algorithms.md §2]
//
//   straight pipelines       minimum T_max, exact (straight.h)
//   folded (V, chimera)      minimum largest device sum, exact (folded.h): each device holds
//                            stages k and S-1-k
//   any other arrangement    local search on the largest device sum (refine.h)
//
// Keeps the problem's replicas.
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_BALANCED_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_BALANCED_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionBalanced(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_BALANCED_H_

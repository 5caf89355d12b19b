// The partition that this planner itself uses: as even as it can be.   [algorithms.md §2]
//
//   straight pipelines       the least T_max, exactly (straight.h)
//   folded (V, chimera)      the least largest device sum, exactly (folded.h): each device
//                            holds stages k and S-1-k
//   any other arrangement    local search on the largest device sum (refine.h)
//
// Replicas stay as the problem has them.
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_BALANCED_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_BALANCED_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionBalanced(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_BALANCED_H_

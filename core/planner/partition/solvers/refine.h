// Cuts for devices that hold several stages in any arrangement (interleaved, bidirectional V): a
// local search, not exact.
//
// It minimises, in this order, the memory by which devices exceed their limits, the largest device
// sum of compute times, and the sum of the sums' squares. Links and gradient syncs are not looked
// at; the result's score has them. From two beginnings (every stage as even as possible in time,
// and even in layers) it moves one cut, or a run of neighbouring cuts, by 1, 2, 4 or 8 layers as
// long as that improves, and keeps the better end.
#ifndef DPIPE_CORE_PLANNER_PARTITION_SOLVERS_REFINE_H_
#define DPIPE_CORE_PLANNER_PARTITION_SOLVERS_REFINE_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

// ResourceExhausted, with both values, if it finds nothing that fits.
absl::StatusOr<Partition> PartitionByRefinement(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_SOLVERS_REFINE_H_

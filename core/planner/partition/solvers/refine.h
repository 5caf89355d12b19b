// Cuts for devices that hold several stages in any arrangement (interleaved, bidirectional V), by
// local search; not exact.
//
// Minimises, in lexicographic order, the bytes by which devices exceed their memory limits, the
// largest device sum of compute times, and the sum of the squares of those sums. Ignores links and
// gradient syncs; the result's score includes them. Starts once from stages as even as possible in
// time and once from stages even in layers. Moves one cut, or a run of neighbouring cuts, by 1, 2,
// 4 or 8 layers as long as that helps, and keeps the better result.
#ifndef DPIPE_CORE_PLANNER_PARTITION_SOLVERS_REFINE_H_
#define DPIPE_CORE_PLANNER_PARTITION_SOLVERS_REFINE_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

// Returns ResourceExhausted, with both values, if it finds nothing that fits.
absl::StatusOr<Partition> PartitionByRefinement(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_SOLVERS_REFINE_H_

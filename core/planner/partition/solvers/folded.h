// The partition where stages k and S-1-k share a device: V schedules, and chimera's two directions.
// Exact, of a V with very many layers nearly so (nested.h). It minimises the largest device sum of
// compute times under the memory limits; links and gradient syncs are not looked at, the result's
// score has them.
//
// With Recompute::kAuto the cuts are those without recomputation where these fit, else those with
// full recomputation, of which the devices that need none are then relieved: not exact.
#ifndef DPIPE_CORE_PLANNER_PARTITION_SOLVERS_FOLDED_H_
#define DPIPE_CORE_PLANNER_PARTITION_SOLVERS_FOLDED_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

// Whether each device holds exactly one copy of stages k and S-1-k for one k; or, of two copies,
// where devices d and D-1-d hold both and cost the same.
bool IsFolded(const PartitionProblem& problem);

// `problem` is folded. ResourceExhausted, naming a device and both values, if nothing fits.
absl::StatusOr<Partition> PartitionFolded(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_SOLVERS_FOLDED_H_

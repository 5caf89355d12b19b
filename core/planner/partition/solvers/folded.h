// Partition with stages k and S-1-k on one device: V schedules, and chimera's two directions.
// Minimises the largest device sum of compute times under the memory limits. Exact, except for a V
// with very many layers (nested.h). Ignores links and gradient syncs; the result's score includes
// them.
//
// With Recompute::kAuto, uses the cuts without recomputation if these fit. Otherwise it uses the
// cuts with full recomputation, and turns recomputation off for devices that do not need it; this
// is not exact.
#ifndef DPIPE_CORE_PLANNER_PARTITION_SOLVERS_FOLDED_H_
#define DPIPE_CORE_PLANNER_PARTITION_SOLVERS_FOLDED_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

// True if each device holds exactly one copy of stages k and S-1-k for one k. With two copies: if
// devices d and D-1-d hold both and cost the same.
bool IsFolded(const PartitionProblem& problem);

// `problem` must be folded. Returns ResourceExhausted, naming a device and both values, if nothing
// fits.
absl::StatusOr<Partition> PartitionFolded(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_SOLVERS_FOLDED_H_

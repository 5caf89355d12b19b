// DAPPLE's partition (Fan et al., arXiv 2007.01045): layers and replicas of every stage of a
// synchronous 1F1B pipeline, by an estimate of its step,
//
//   (M - 1) * T + sum of stages + sum of cut transfers + max over i of max(0, allreduce_i - i * T)
//
// T is the longest block: a stage's compute or a cut's transfer. [systems.md]
//
// For a given limit on T the rest is a sum and a maximum, whose Pareto front is kept in a table
// over (stages, ranks, layers). The limit starts at the least possible T and grows: through every
// value that a block takes where these are few (at most 600), which is exact if M >= S; by 1 % at a
// time otherwise, which is at most 1 % above the optimum then. (Where M < S a longer block can
// lower the estimate, which a limit does not see.) One limit in 16 is tried first; then what the
// stages so far, their longest block and the least that all later ones add up to already cost as
// much as the best is left out, so that few limits take long. Eight stages of 150 layers on 64
// ranks take 1 to 7 s.
//
// Deviations: DAPPLE also chooses among device placements; here stages take ranks in order. Times
// are the profile's at the local batch, transfers go from border rank to border rank, and the
// devices' memory is respected. Straight pipelines only; the replicas are the problem's unless it
// lets them be chosen.
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_DAPPLE_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_DAPPLE_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionDapple(const PartitionProblem& problem);

// Its objective.
Nanos DappleCost(const PartitionProblem& problem, const std::vector<LayerRange>& stages,
                 const std::vector<DeviceSeat>& seats);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_DAPPLE_H_

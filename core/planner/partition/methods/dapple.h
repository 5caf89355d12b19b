// DAPPLE's partition (Fan et al., arXiv 2007.01045): chooses layers and replicas of every stage of
// a synchronous 1F1B pipeline by an estimate of its step,
//
//   (M - 1) * T + sum of stages + sum of cut transfers + max over i of max(0, allreduce_i - i * T)
//
// T is the longest block: a stage's compute or a cut's transfer. [systems.md]
//
// For a given limit on T the rest is a sum and a maximum, whose Pareto front is kept in a table
// over (stages, ranks, layers).
//
//   1. The limit starts at the minimum possible T. If blocks take at most 600 values, it grows
//      through all of them, which is exact if M >= S. Otherwise it grows by 1 % at a time; the
//      result is then at most 1 % above the optimum. (If M < S, a longer block can lower the
//      estimate, which a limit does not see.)
//   2. One limit in 16 is tried first, to get a cost to compare with.
//   3. Partial solutions are dropped if the stages so far, their longest block and the minimum of
//      all later stages already cost as much as the best. So few limits take long.
//
// Eight stages of 150 layers on 64 ranks take 1 to 7 s.
//
// Deviations: DAPPLE also chooses among device placements; here stages take ranks in order. Times
// are the profile's at the local batch, transfers go from border rank to border rank, and the
// devices' memory limits hold. Straight pipelines only. Replicas are chosen only if the problem
// allows it.
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_DAPPLE_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_DAPPLE_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionDapple(const PartitionProblem& problem);

// Returns the objective above.
Nanos DappleCost(const PartitionProblem& problem, const std::vector<LayerRange>& stages,
                 const std::vector<DeviceSeat>& seats);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_DAPPLE_H_

// Memory-aware recursive binary partition, after DawnPiper (arXiv 2505.05856).
//
// A run of stages a .. b-1 with layers [i, j) is cut in two halves of n and m stages (m = n or n +
// 1) at the cut c that minimises
//
//   max(compute [i, c) / n, compute [c, j) / m, link at c)
//
// (unlike devices: divided by the sum of their speeds)
//
// among those where both halves can still be partitioned within their devices' memory; then each
// half is cut likewise. Ties go to the first cut. Greedy: no cut is reconsidered when the halves
// turn out not to divide evenly. It finds a partition whenever one fits. O(S L W log S) for the W
// ends that a stage may have.
//
// Only that idea is the paper's; the criterion of a cut is this project's, and there is no
// swapping. Recomputation is as the problem says. Straight pipelines only.
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_DAWNPIPER_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_DAWNPIPER_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionDawnPiper(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_DAWNPIPER_H_

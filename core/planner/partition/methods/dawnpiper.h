// Memory-aware recursive binary partition, after DawnPiper (arXiv 2505.05856).
//
// A run of stages a .. b-1 with layers [i, j) is cut into two halves of n and m stages (m = n or n
// + 1) at the cut c that minimises
//
//   max(compute [i, c) / n, compute [c, j) / m, link at c)
//
// (for unlike devices: divided by the sum of their speeds) among the cuts with which both halves
// can still be partitioned within their devices' memory. Each half is then cut in the same way.
// Ties go to the first cut. Greedy: a cut is not reconsidered if the halves turn out not to divide
// evenly. Finds a partition whenever one fits. O(S L W log S) if a stage has W possible ends.
//
// Only this idea is the paper's: the criterion for a cut is this project's, and there is no
// swapping. Recomputation is as in the problem. Straight pipelines only.
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_DAWNPIPER_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_DAWNPIPER_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionDawnPiper(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_DAWNPIPER_H_

// The exact partition: the least T_max over all contiguous ones that fit in memory.
//
// A sum of two maxima needs more than one scalar a state, so the table keeps Pareto fronts:
//
//   front(s, i) = the non-dominated (T0, Y) of cutting layers [i, L) into the stages s .. S-1
//   front(s, i) = union over j of { (max(T0, t(i,j), link(i)), max(Y, sync(i,j) - slack(i))) :
//                                   (T0, Y) in front(s + 1, j) }
//
// Points whose own T_max exceeds that of the partition with the least T0 can be in no optimum and
// are dropped, which leaves fronts of a few points. O(S L^2 F) time for fronts of F points, O(S L
// F) memory. Among the partitions of least T_max the result is the one with the lexicographically
// smallest cuts.
#ifndef DPIPE_CORE_PLANNER_PARTITION_BALANCED_H_
#define DPIPE_CORE_PLANNER_PARTITION_BALANCED_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionBalanced(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_BALANCED_H_

// Exact partition of a straight pipeline: minimum T_max over all contiguous partitions that fit in
// memory. Devices may differ in speed, memory and replicas; their order is given.
//
// The objective is a sum of two maxima, so one scalar per state is not enough. The table keeps
// Pareto fronts:
//
//   front(s, i) = the non-dominated (T0, Z) of cutting layers [i, L) into the stages s .. S-1
//   Z           = max over these stages of sync - backward time of [i, .) before the stage: what
//                 the stages before i do not hide of it is Y
//   front(s, i) = union over j of { (max(T0, t(i,j), link(i)), max(sync(i,j), Z - back(i,j))) :
//                                   (T0, Z) in front(s + 1, j) }
//
// Points that cannot beat the T_max of the partition with the minimum T0 are dropped. So are stages
// that alone take longer than it allows. This leaves short fronts and a few ends per state. O(S L W
// F) time for W ends and fronts of F points; W <= L. Of the partitions with minimum T_max, the
// result has the lexicographically smallest cuts.
//
// With Recompute::kAuto, a stage recomputes if and only if it would not fit otherwise. This is
// optimal: recomputation costs time and helps nothing else.
#ifndef DPIPE_CORE_PLANNER_PARTITION_SOLVERS_STRAIGHT_H_
#define DPIPE_CORE_PLANNER_PARTITION_SOLVERS_STRAIGHT_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

// `problem` must be straight. Returns ResourceExhausted, with both values, if nothing fits.
absl::StatusOr<Partition> PartitionStraight(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_SOLVERS_STRAIGHT_H_

// The exact partition of a straight pipeline: the least T_max over all contiguous ones that fit in
// memory, for devices that may differ in speed, memory and replicas, in a given order.
//
// A sum of two maxima needs more than one scalar a state, so the table keeps Pareto fronts:
//
//   front(s, i) = the non-dominated (T0, Z) of cutting layers [i, L) into the stages s .. S-1
//   Z           = max over these stages of sync - backward time of [i, .) before the stage: what
//                 the stages before i do not hide of it is Y
//   front(s, i) = union over j of { (max(T0, t(i,j), link(i)), max(sync(i,j), Z - back(i,j))) :
//                                   (T0, Z) in front(s + 1, j) }
//
// Points that cannot beat the T_max of the partition with the least T0 are dropped, and so are
// stages that alone take longer than it allows, which leaves short fronts and a few ends a state.
// O(S L W F) time for W ends and fronts of F points; W <= L. Among the partitions of least T_max
// the result is the one with the lexicographically smallest cuts.
//
// With Recompute::kAuto a stage recomputes if and only if it would not fit otherwise, which is
// optimal: it costs time and helps nothing else.
#ifndef DPIPE_CORE_PLANNER_PARTITION_SOLVERS_STRAIGHT_H_
#define DPIPE_CORE_PLANNER_PARTITION_SOLVERS_STRAIGHT_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

// `problem` is straight. ResourceExhausted, with both values, if nothing fits.
absl::StatusOr<Partition> PartitionStraight(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_SOLVERS_STRAIGHT_H_

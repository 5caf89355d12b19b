// The partition by count: every stage gets the same number of layers, the first ones one more where
// the layers do not divide. It looks at no cost: the baseline that the exact partition is compared
// with.
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_UNIFORM_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_UNIFORM_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionUniform(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_UNIFORM_H_

// Partition by count: every stage gets the same number of layers, and the first ones get one more
// if the layers do not divide. Ignores all costs: the baseline for the exact partition.
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_UNIFORM_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_UNIFORM_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionUniform(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_UNIFORM_H_

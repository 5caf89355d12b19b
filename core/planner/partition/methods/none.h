// No partition: one stage with every layer, which is data parallelism.
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_NONE_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_NONE_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

// Returns InvalidArgument if more than one stage is requested.
absl::StatusOr<Partition> PartitionNone(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_NONE_H_

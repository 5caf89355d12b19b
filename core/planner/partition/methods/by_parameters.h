// Partition by weights: minimises the maximum parameter bytes of a stage. Ignores time, like
// DeepSpeed's partition_method="parameters". Deviation: if a device holds several stages, the
// stages are evened out, not the devices' sums.
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_BY_PARAMETERS_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_BY_PARAMETERS_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionByParameters(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_BY_PARAMETERS_H_

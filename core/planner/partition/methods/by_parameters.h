// The partition by weights: the stage with most parameter bytes has as few as possible. It looks at
// no time, as DeepSpeed's partition_method="parameters" does. Deviation: where a device holds
// several stages it is the stages that are evened out, not the devices' sums.
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_BY_PARAMETERS_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_BY_PARAMETERS_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

absl::StatusOr<Partition> PartitionByParameters(const PartitionProblem& problem);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_BY_PARAMETERS_H_

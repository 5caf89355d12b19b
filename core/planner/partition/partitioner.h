// The ways to partition, by name: a Strategy names one.
#ifndef DPIPE_CORE_PLANNER_PARTITION_PARTITIONER_H_
#define DPIPE_CORE_PLANNER_PARTITION_PARTITIONER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

// Pure: the same problem gives the same partition. Errors: InvalidArgument for an impossible number
// of stages, ResourceExhausted where no partition of its kind fits in memory.
using Partitioner = absl::StatusOr<Partition> (*)(const PartitionProblem& problem);

// "balanced", "none" or "uniform". NotFound, listing the names, for any other.
absl::StatusOr<Partitioner> FindPartitioner(absl::string_view name);

// In alphabetical order.
std::vector<std::string> PartitionerNames();

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_PARTITIONER_H_

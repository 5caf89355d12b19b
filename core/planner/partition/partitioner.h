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
// of stages or an arrangement of them that it does not cut, ResourceExhausted where no partition of
// its kind fits in memory.
using Partitioner = absl::StatusOr<Partition> (*)(const PartitionProblem& problem);

// "balanced" (ours), "by_parameters", "dapple", "dawnpiper", "heterogeneous", "none", "pipedream",
// "skip_aware", "spp", "uniform": each in a file of its name, which says what it optimises.
// NotFound, listing the names, for any other.
absl::StatusOr<Partitioner> FindPartitioner(absl::string_view name);

// In alphabetical order.
std::vector<std::string> PartitionerNames();

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_PARTITIONER_H_

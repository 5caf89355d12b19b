// Partitioners by name. A Strategy names one.
#ifndef DPIPE_CORE_PLANNER_PARTITION_PARTITIONER_H_
#define DPIPE_CORE_PLANNER_PARTITION_PARTITIONER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

// Returns a partition; the same problem always gives the same one. Returns InvalidArgument for an
// impossible number of stages or an arrangement that the partitioner does not cut, and
// ResourceExhausted if no partition of its kind fits in memory.
using Partitioner = absl::StatusOr<Partition> (*)(const PartitionProblem& problem);

// Returns the partitioner of that name: "balanced" (ours), "by_bound", "by_parameters",
// "dapple", "dawnpiper", "heterogeneous", "none", "pipedream", "skip_aware", "spp" or "uniform".
// Each is in a file of its name, which says what it optimises. "by_bound" is "balanced", but the
// planner keeps its cut as it is: it compares it with no other cut and moves no layers. Returns
// NotFound, listing the names, for any other name.
absl::StatusOr<Partitioner> FindPartitioner(absl::string_view name);

// Returns the names in alphabetical order.
std::vector<std::string> PartitionerNames();

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_PARTITIONER_H_

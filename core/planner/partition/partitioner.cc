#include "core/planner/partition/partitioner.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/planner/partition/balanced.h"
#include "core/planner/partition/none.h"
#include "core/planner/partition/uniform.h"

namespace dpipe {
namespace {

struct Entry {
  const char* name;
  Partitioner partitioner;
};

constexpr Entry kPartitioners[] = {
    {"balanced", &PartitionBalanced},
    {"none", &PartitionNone},
    {"uniform", &PartitionUniform},
};

}  // namespace

absl::StatusOr<Partitioner> FindPartitioner(absl::string_view name) {
  for (const Entry& entry : kPartitioners) {
    if (name == entry.name) return entry.partitioner;
  }
  return absl::NotFoundError(absl::StrCat("unknown partitioner '", name, "'; the known ones are ",
                                          absl::StrJoin(PartitionerNames(), ", ")));
}

std::vector<std::string> PartitionerNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kPartitioners) names.push_back(entry.name);
  return names;
}

}  // namespace dpipe

#include "core/planner/partition/partitioner.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/text/did_you_mean.h"
#include "core/base/text/show.h"
#include "core/planner/partition/methods/balanced.h"
#include "core/planner/partition/methods/by_parameters.h"
#include "core/planner/partition/methods/dapple.h"
#include "core/planner/partition/methods/dawnpiper.h"
#include "core/planner/partition/methods/heterogeneous.h"
#include "core/planner/partition/methods/none.h"
#include "core/planner/partition/methods/pipedream.h"
#include "core/planner/partition/methods/skip_aware.h"
#include "core/planner/partition/methods/spp.h"
#include "core/planner/partition/methods/uniform.h"

namespace dpipe {
namespace {

struct Entry {
  const char* name;
  Partitioner partitioner;
};

constexpr Entry kPartitioners[] = {
    {"balanced", &PartitionBalanced},
    {"by_bound", &PartitionBalanced},
    {"by_parameters", &PartitionByParameters},
    {"dapple", &PartitionDapple},
    {"dawnpiper", &PartitionDawnPiper},
    {"heterogeneous", &PartitionHeterogeneous},
    {"none", &PartitionNone},
    {"pipedream", &PartitionPipeDream},
    {"skip_aware", &PartitionSkipAware},
    {"spp", &PartitionSpp},
    {"uniform", &PartitionUniform},
};

}  // namespace

absl::StatusOr<Partitioner> FindPartitioner(absl::string_view name) {
  for (const Entry& entry : kPartitioners) {
    if (name == entry.name) return entry.partitioner;
  }
  return absl::NotFoundError(absl::StrCat("unknown partitioner '", ShowText(name), "'; there are ",
                                          ShowNames(PartitionerNames()),
                                          "; bazel run //tools:plan -- --list shows all",
                                          DidYouMean(std::string(name), PartitionerNames(), "")));
}

std::vector<std::string> PartitionerNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kPartitioners) names.push_back(entry.name);
  return names;
}

}  // namespace dpipe

#include "core/schedule/generators.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"

namespace dpipe {
namespace {

// Filled before main by static initialisers, in any order; not changed after.
std::map<std::string, ScheduleGenerator>& Registry() {
  static auto* const registry = new std::map<std::string, ScheduleGenerator>();
  return *registry;
}

}  // namespace

absl::StatusOr<Schedule> MakeSchedule(const std::string& name, const ScheduleRequest& request) {
  const auto found = Registry().find(name);
  if (found == Registry().end()) {
    return absl::NotFoundError(
        absl::StrCat("schedule '", name, "' is none of ", absl::StrJoin(ScheduleNames(), ", ")));
  }
  if (request.num_devices < 1 || request.num_micro_batches < 1) {
    return absl::InvalidArgumentError(absl::StrCat("schedule ", name, ": ", request.num_devices,
                                                   " devices and ", request.num_micro_batches,
                                                   " micro-batches; at least one of each"));
  }
  return found->second(request);
}

std::vector<std::string> ScheduleNames() {
  std::vector<std::string> names;
  for (const auto& entry : Registry()) names.push_back(entry.first);
  return names;
}

bool RegisterScheduleGenerator(const std::string& name, ScheduleGenerator generator) {
  const bool added = Registry().emplace(name, std::move(generator)).second;
  DPIPE_CHECK(added) << "schedule " << name << " is registered twice";
  return added;
}

}  // namespace dpipe

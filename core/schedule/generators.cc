#include "core/schedule/generators.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/text/did_you_mean.h"
#include "core/base/text/show.h"
#include "core/schedule/peak_limit.h"
#include "core/schedule/self_conditioning.h"

namespace dpipe {
namespace {

// Returns the registry. Static initialisers fill it before main, in any order. After that, only
// ImportSchedule adds to it.
std::map<std::string, ScheduleGenerator>& Registry() {
  static auto* const registry = new std::map<std::string, ScheduleGenerator>();
  return *registry;
}

// Makes the second lap with the generator and adds the first one. The costs of the second lap are
// the request's costs of its stages. A schedule made without costs shows which stages these are, as
// stages do not depend on costs.
absl::StatusOr<Schedule> MakeWithSelfConditioning(const ScheduleGenerator& generator,
                                                  const ScheduleRequest& request) {
  ScheduleRequest second_lap = request;
  second_lap.self_conditioning = false;
  second_lap.costs.clear();
  if (!request.costs.empty()) {
    DPIPE_ASSIGN_OR_RETURN(const Schedule stages, generator(second_lap));
    DPIPE_ASSIGN_OR_RETURN(second_lap.costs, CostsOfSecondLap(stages, request.costs));
  }
  DPIPE_ASSIGN_OR_RETURN(const Schedule schedule, generator(second_lap));
  return WithSelfConditioning(schedule, request.costs);
}

}  // namespace

absl::StatusOr<Schedule> MakeSchedule(const std::string& name, const ScheduleRequest& request) {
  const auto found = Registry().find(name);
  if (found == Registry().end()) {
    return absl::NotFoundError(absl::StrCat(
        "schedule '", ShowText(name), "' is not one of ", ShowNames(ScheduleNames()),
        "; bazel run //tools:plan -- --list shows all", DidYouMean(name, ScheduleNames(), "")));
  }
  if (request.num_devices < 1 || request.num_micro_batches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", name, ": ", request.num_devices, " devices and ",
                     request.num_micro_batches, " micro-batches; it needs at least one of each"));
  }
  if (request.peak_limit < 0) {
    return absl::InvalidArgumentError(absl::StrCat("schedule ", name, ": a limit of ",
                                                   request.peak_limit,
                                                   " pairs; it must be 0 (unlimited) or more"));
  }
  absl::StatusOr<Schedule> schedule = request.self_conditioning
                                          ? MakeWithSelfConditioning(found->second, request)
                                          : found->second(request);
  DPIPE_RETURN_IF_ERROR(schedule.status());
  DPIPE_RETURN_IF_ERROR(CheckPeakLimit(*schedule, request.peak_limit));
  return schedule;
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

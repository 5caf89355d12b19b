#include "core/schedule/file_formats/imported_schedule.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/schedule/generators.h"
#include "core/schedule/schedule_traits.h"

namespace dpipe {
namespace {

ScheduleTraits TraitsOfSchedule(const Schedule& schedule) {
  ScheduleTraits traits;
  const int devices = schedule.num_devices();
  traits.min_devices = traits.max_devices = devices;
  traits.stages_per_device = (schedule.num_stages() + devices - 1) / devices;
  for (int d = 0; d < devices; ++d) {
    for (const Slot& slot : schedule.slots(d)) {
      traits.splits_backward |= slot.pass == Pass::kInputGrad;
    }
  }
  return traits;
}

}  // namespace

absl::Status ImportSchedule(const std::string& name, const Schedule& schedule) {
  const std::vector<std::string> names = ScheduleNames();
  if (std::find(names.begin(), names.end(), name) != names.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule '", name, "' already exists; import it under another name"));
  }
  if (schedule.chains().size() > 1 || schedule.chains()[0].num_forward_only > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule '", name, "' has ", schedule.chains().size(), " chains and ",
        schedule.chains()[0].num_forward_only,
        " forward-only stages; only schedules with one chain and none of these can be imported"));
  }
  RegisterScheduleTraits(name, TraitsOfSchedule(schedule));
  RegisterScheduleGenerator(
      name, [name, schedule](const ScheduleRequest& request) -> absl::StatusOr<Schedule> {
        const int devices = schedule.num_devices(), micro_batches = schedule.num_micro_batches();
        if (request.num_devices == devices && request.num_micro_batches == micro_batches) {
          return schedule;
        }
        return absl::InvalidArgumentError(absl::StrCat("schedule ", name, ": ", request.num_devices,
                                                       " devices and ", request.num_micro_batches,
                                                       " micro-batches requested; it is for ",
                                                       devices, " and ", micro_batches));
      });
  return absl::OkStatus();
}

}  // namespace dpipe

// A pipeline of one stage: gradient accumulation on one device, or data parallelism on several.
#include "absl/strings/str_cat.h"
#include "core/schedule/generators.h"

namespace dpipe {
namespace {

absl::StatusOr<Schedule> Single(const ScheduleRequest& request) {
  if (request.num_devices != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule single: ", request.num_devices, " devices; it has 1 stage"));
  }
  std::vector<Slot> slots;
  for (int m = 0; m < request.num_micro_batches; ++m) {
    slots.push_back({Pass::kForward, m});
    slots.push_back({Pass::kBackward, m});
  }
  return Schedule::CreateStraight("single", request.num_micro_batches, {slots});
}

REGISTER_SCHEDULE_GENERATOR("single", Single);

}  // namespace
}  // namespace dpipe

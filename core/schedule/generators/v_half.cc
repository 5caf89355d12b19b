#include "core/schedule/builders/v_schedule.h"
#include "core/schedule/generators.h"

namespace dpipe {
namespace {

absl::StatusOr<Schedule> VHalf(const ScheduleRequest& request) {
  return MakeVSchedule("v-half", VBlock::kHalf, request);
}

REGISTER_SCHEDULE_GENERATOR("v-half", VHalf);

}  // namespace
}  // namespace dpipe

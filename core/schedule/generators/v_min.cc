#include "core/schedule/builders/v_schedule.h"
#include "core/schedule/generators.h"

namespace dpipe {
namespace {

absl::StatusOr<Schedule> VMin(const ScheduleRequest& request) {
  return MakeVSchedule("v-min", VBlock::kMin, request);
}

REGISTER_SCHEDULE_GENERATOR("v-min", VMin);

}  // namespace
}  // namespace dpipe

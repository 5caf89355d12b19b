#include "core/schedule/generators.h"
#include "core/schedule/v_schedule.h"

namespace dpipe {
namespace {

absl::StatusOr<Schedule> ZbV(const ScheduleRequest& request) {
  return MakeVSchedule("zb-v", VBlock::kZeroBubble, request);
}

REGISTER_SCHEDULE_GENERATOR("zb-v", ZbV);

}  // namespace
}  // namespace dpipe

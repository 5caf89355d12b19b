#include "core/schedule/builders/v_schedule.h"
#include "core/schedule/generators.h"

namespace dpipe {
namespace {

absl::StatusOr<Schedule> ZbV(const ScheduleRequest& request) {
  return MakeVSchedule("zb-v", VBlock::kZeroBubble, request);
}

REGISTER_SCHEDULE_GENERATOR("zb-v", ZbV);

}  // namespace
}  // namespace dpipe

// GPipe (Huang et al., NeurIPS 2019): all forward passes, then all backward passes. Backward passes
// run in micro-batch order (first in, first out), so that every schedule adds gradients in the same
// order.
#include "core/schedule/generators.h"

namespace dpipe {
namespace {

absl::StatusOr<Schedule> GPipe(const ScheduleRequest& request) {
  std::vector<Slot> slots;
  for (Pass pass : {Pass::kForward, Pass::kBackward}) {
    for (int m = 0; m < request.num_micro_batches; ++m) slots.push_back({pass, m});
  }
  return Schedule::CreateStraight("gpipe", request.num_micro_batches,
                                  std::vector<std::vector<Slot>>(request.num_devices, slots));
}

REGISTER_SCHEDULE_GENERATOR("gpipe", GPipe);

}  // namespace
}  // namespace dpipe

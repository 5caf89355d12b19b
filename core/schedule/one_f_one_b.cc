// 1F1B (PipeDream-Flush; Narayanan et al., ICML 2021): stage s of p runs p-1-s forward passes
// ahead, then one forward and one backward in turn, then the backward passes that are left. Same
// bubble as GPipe with at most p - s micro-batches kept.
#include <algorithm>

#include "core/schedule/generators.h"

namespace dpipe {
namespace {

std::vector<Slot> StageSlots(int warm_up, int num_micro_batches) {
  std::vector<Slot> slots;
  int backward = 0;
  for (int forward = 0; forward < num_micro_batches; ++forward) {
    slots.push_back({Pass::kForward, forward});
    if (forward >= warm_up) slots.push_back({Pass::kBackward, backward++});
  }
  while (backward < num_micro_batches) slots.push_back({Pass::kBackward, backward++});
  return slots;
}

absl::StatusOr<Schedule> OneFOneB(const ScheduleRequest& request) {
  std::vector<std::vector<Slot>> stages;
  for (int s = 0; s < request.num_devices; ++s) {
    const int warm_up = std::min(request.num_devices - 1 - s, request.num_micro_batches);
    stages.push_back(StageSlots(warm_up, request.num_micro_batches));
  }
  return Schedule::CreateStraight("1f1b", request.num_micro_batches, std::move(stages));
}

REGISTER_SCHEDULE_GENERATOR("1f1b", OneFOneB);

}  // namespace
}  // namespace dpipe

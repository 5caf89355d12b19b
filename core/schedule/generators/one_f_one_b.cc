// 1F1B (PipeDream-Flush; Narayanan et al., ICML 2021): stage s of p runs p-1-s forward passes
// ahead, then one forward and one backward pass in turn, then the remaining backward passes. It has
// the same bubble as GPipe but keeps at most p - s micro-batches.
#include "core/schedule/builders/run_ahead.h"
#include "core/schedule/generators.h"

namespace dpipe {
namespace {

absl::StatusOr<Schedule> OneFOneB(const ScheduleRequest& request) {
  std::vector<std::vector<Slot>> stages;
  for (int s = 0; s < request.num_devices; ++s) {
    stages.push_back(RunAheadSlots(request.num_devices - 1 - s, request.num_micro_batches));
  }
  return Schedule::CreateStraight("1f1b", request.num_micro_batches, std::move(stages));
}

REGISTER_SCHEDULE_GENERATOR("1f1b", OneFOneB);

}  // namespace
}  // namespace dpipe

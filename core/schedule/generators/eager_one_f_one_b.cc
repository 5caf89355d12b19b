// Eager 1F1B (Zhuang et al., "On optimizing the communication of model parallelism", MLSys 2023):
// stage s of p makes 2(p-s)-1 forward passes before its first backward pass, where 1F1B makes p-s.
// The input of a forward pass in the steady phase was then sent one micro-batch or more before it
// is needed, so that the transfer has time to hide. The bubble is 1F1B's; the peak is
// min(m, 2(p-s)-1) micro-batches against min(m, p-s).
#include "core/schedule/builders/run_ahead.h"
#include "core/schedule/generators.h"

namespace dpipe {
namespace {

absl::StatusOr<Schedule> EagerOneFOneB(const ScheduleRequest& request) {
  std::vector<std::vector<Slot>> stages;
  for (int s = 0; s < request.num_devices; ++s) {
    stages.push_back(RunAheadSlots(2 * (request.num_devices - 1 - s), request.num_micro_batches));
  }
  return Schedule::CreateStraight("eager-1f1b", request.num_micro_batches, std::move(stages));
}

REGISTER_SCHEDULE_GENERATOR("eager-1f1b", EagerOneFOneB);

}  // namespace
}  // namespace dpipe

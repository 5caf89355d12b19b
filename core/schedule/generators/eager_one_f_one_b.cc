// Eager 1F1B (Zhuang et al., "On optimizing the communication of model parallelism", MLSys 2023):
// stage s of p runs 2(p-s)-1 forward passes before its first backward pass; 1F1B runs p-s. In the
// steady phase, the input of a forward pass is then sent at least one micro-batch before it is
// needed, so the transfer can overlap other work. The bubble is the same as with 1F1B. The peak is
// min(m, 2(p-s)-1) micro-batches instead of min(m, p-s).
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

// ZB-H1 (Qi, Wan, Huang, Lin: "Zero bubble pipeline parallelism", ICLR 2024, arXiv 2401.10241):
// 1F1B with the weight gradients of stage s delayed by s micro-batches. Input gradients then return
// sooner, and weight gradients fill the wait. Every device keeps min(m, p) micro-batches, which is
// the peak of 1F1B on its first device.
//
// A device's idle time between the start of its first pass and the end of its last one is at most
//
//   (p-1)(F+B) - min(m-1, p-1) W        if W <= F,
//
// and exactly that on device 0. If also W <= B, device 0 spans the whole schedule, so this is the
// makespan minus a device's work. For m >= p it is the paper's (p-1)(F+B-W).
#include "core/schedule/builders/run_ahead.h"
#include "core/schedule/generators.h"

namespace dpipe {
namespace {

absl::StatusOr<Schedule> ZbH1(const ScheduleRequest& request) {
  std::vector<std::vector<Slot>> stages;
  for (int s = 0; s < request.num_devices; ++s) {
    stages.push_back(SplitRunAheadSlots(request.num_devices - 1 - s, s, request.num_micro_batches));
  }
  return Schedule::CreateStraight("zb-h1", request.num_micro_batches, std::move(stages));
}

REGISTER_SCHEDULE_GENERATOR("zb-h1", ZbH1);

}  // namespace
}  // namespace dpipe

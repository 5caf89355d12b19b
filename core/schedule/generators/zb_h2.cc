// ZB-H2 (Qi, Wan, Huang, Lin: "Zero bubble pipeline parallelism", ICLR 2024, arXiv 2401.10241):
// runs ahead twice as far as ZB-H1, and delays weight gradients twice as long. Every device keeps
// min(m, 2p-1) micro-batches.
//
// The maximum over devices of the idle time between the start of the device's own first pass and
// the end of its own last one (the paper's measure, which lets the optimizer steps of the devices
// follow one another) is
//
//   (p-1)(F+B) - min(m-1, 2(p-1)) W     if W <= F and W <= B.
//
// For m >= 2p-1 it is the paper's (p-1)(F+B-2W), which is 0 at F = B = W. The devices start and end
// (p-1) F apart. A step that ends on all devices together takes the whole makespan, which at
// F = B = W is no shorter than ZB-H1's.
#include "core/schedule/builders/run_ahead.h"
#include "core/schedule/generators.h"

namespace dpipe {
namespace {

absl::StatusOr<Schedule> ZbH2(const ScheduleRequest& request) {
  std::vector<std::vector<Slot>> stages;
  for (int s = 0; s < request.num_devices; ++s) {
    stages.push_back(
        SplitRunAheadSlots(2 * (request.num_devices - 1 - s), 2 * s, request.num_micro_batches));
  }
  return Schedule::CreateStraight("zb-h2", request.num_micro_batches, std::move(stages));
}

REGISTER_SCHEDULE_GENERATOR("zb-h2", ZbH2);

}  // namespace
}  // namespace dpipe

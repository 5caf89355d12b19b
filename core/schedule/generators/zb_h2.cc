// ZB-H2 (Qi, Wan, Huang, Lin: "Zero bubble pipeline parallelism", ICLR 2024, arXiv 2401.10241):
// twice ZB-H1's run ahead and twice its delay of weight gradients. Every device keeps min(m, 2p-1)
// micro-batches.
//
// The largest idle time of a device between the start of its own first pass and the end of its own
// last one (the paper's measure; it lets the optimizer steps of the devices come one after the
// other) is
//
//   (p-1)(F+B) - min(m-1, 2(p-1)) W     where W <= F and W <= B,
//
// the paper's (p-1)(F+B-2W) from m = 2p-1 on: nothing at F = B = W. The devices start and end
// (p-1) F apart, so the makespan, which a step that ends on all devices at once must wait for, is
// no shorter than ZB-H1's at F = B = W.
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

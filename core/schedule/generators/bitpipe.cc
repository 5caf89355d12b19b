// BitPipe (Wu, Chen, Zhang, Li, "BitPipe: bidirectional interleaved pipeline parallelism",
// arXiv 2410.19367): two V-shaped chains of 2p stages in opposite directions. Each device has four
// stages, two of each copy of the weights.
//
// With F = B and p | N, the makespan of N micro-batches is 4N + p - 2 passes. Each device is busy
// for 4N of them, so the bubble ratio is (p-2)/(4N+p-2). In general the makespan is
// 4N + p - 2 + 3r, with 0 <= r < p such that p divides N + r. A device keeps at most min(2N, 2p)
// (stage, micro-batch) pairs, each half as large as one of 1f1b.
#include "core/schedule/builders/bidirectional.h"
#include "core/schedule/builders/v_schedule.h"

namespace dpipe {
namespace {

absl::StatusOr<Schedule> BitPipe(const ScheduleRequest& request) {
  return MakeBidirectional("bitpipe", VChain(request.num_devices, 1), request);
}

REGISTER_SCHEDULE_GENERATOR("bitpipe", BitPipe);

}  // namespace
}  // namespace dpipe

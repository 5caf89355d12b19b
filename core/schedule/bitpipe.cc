// BitPipe (Wu, Chen, Zhang, Li, "BitPipe: bidirectional interleaved pipeline parallelism",
// arXiv 2410.19367): two V-shaped chains of 2p stages in opposite directions, so that a device has
// four stages, two of each copy of the weights.
//
// With F = B the makespan of N micro-batches is 4N + p - 2 passes for N >= p, of which each device
// works 4N: a bubble of (p-2)/(4N+p-2). A device keeps at most min(2N, 2p) pairs of half a stage
// of 1f1b each. Tested are the even p <= 12.
#include "core/schedule/bidirectional.h"
#include "core/schedule/v_schedule.h"

namespace dpipe {
namespace {

absl::StatusOr<Schedule> BitPipe(const ScheduleRequest& request) {
  return MakeBidirectional("bitpipe", VChain(request.num_devices, 1), request);
}

REGISTER_SCHEDULE_GENERATOR("bitpipe", BitPipe);

}  // namespace
}  // namespace dpipe

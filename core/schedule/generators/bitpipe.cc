// BitPipe (Wu, Chen, Zhang, Li, "BitPipe: bidirectional interleaved pipeline parallelism",
// arXiv 2410.19367): two V-shaped chains of 2p stages in opposite directions, so that a device has
// four stages, two of each copy of the weights.
//
// With F = B and p | N, N micro-batches take 4N + p - 2 passes, of which each device works 4N: a
// bubble of (p-2)/(4N+p-2). In general it is 4N + p - 2 + 3r, where p divides N + r, 0 <= r < p. A
// device keeps at most min(2N, 2p) pairs of half a stage of 1f1b each.
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

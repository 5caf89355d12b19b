// Chimera (Li, Hoefler, "Chimera: efficiently training large-scale neural networks with
// bidirectional pipelines", SC 2021): two chains, stage k of the second on device p-1-k.
//
// With F = B and p | N, the makespan of N micro-batches is 2N + p - 2 passes. Each device is busy
// for 2N of them, so the bubble ratio is (p-2)/(2N+p-2). At N = p this is the paper's figure. More
// micro-batches follow without a gap, as the paper's concatenated units do at F = B. A partial last
// unit takes as long as a full one: in general the makespan is 2N + p - 2 + r, with 0 <= r < p such
// that p divides N + r. A device keeps at most min(N, p) (stage, micro-batch) pairs.
#include "core/schedule/builders/bidirectional.h"

namespace dpipe {
namespace {

absl::StatusOr<Schedule> Chimera(const ScheduleRequest& request) {
  ScheduleChain down;
  for (int d = 0; d < request.num_devices; ++d) down.devices.push_back(d);
  return MakeBidirectional("chimera", down, request);
}

REGISTER_SCHEDULE_GENERATOR("chimera", Chimera);

}  // namespace
}  // namespace dpipe

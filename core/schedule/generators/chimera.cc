// Chimera (Li, Hoefler, "Chimera: efficiently training large-scale neural networks with
// bidirectional pipelines", SC 2021): two chains, stage k of the second on device p-1-k.
//
// With F = B and p | N, N micro-batches take 2N + p - 2 passes, of which each device works 2N: a
// bubble of (p-2)/(2N+p-2). At N = p that is the paper's figure; more micro-batches follow without
// a gap, as the paper's concatenated units do at F = B. The last unit takes as long if it is not
// full: in general it is 2N + p - 2 + r, where p divides N + r, 0 <= r < p. A device keeps at most
// min(N, p) pairs.
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

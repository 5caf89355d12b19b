// Whether a plan's messages pair up and cannot deadlock under blocking rendezvous.
//
// The strictest reading of a plan: each rank runs its list in order; a maximal run of consecutive
// SEND and RECV instructions is posted together and must be complete before the next instruction,
// but of several messages from one rank to another only the first: before the second, the run's
// messages of the same way, to higher or to lower ranks, that precede it in the list must be
// through, as it goes over NCCL. Messages between two ranks match in order; a REDUCE_GRADS,
// GATHER_PARAMS or SYNC_PARAMS waits for all ranks of all stages of the same layers, an
// OPTIMIZER_STEP with a global norm, and a FLUSH, for all ranks. What passes cannot deadlock under
// any transport with as much or more buffering.
#ifndef DPIPE_CORE_SCHEDULE_RENDEZVOUS_H_
#define DPIPE_CORE_SCHEDULE_RENDEZVOUS_H_

#include <vector>

#include "core/base/status.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// For every rank and instruction, the index of the matching instruction on `peer`'s list; -1 where
// the instruction is no message. InvalidArgument with rank, instruction and both values if two do
// not match.
absl::StatusOr<std::vector<std::vector<int>>> MatchMessages(const Plan& plan);

// Pairing, and progress to the end, of the prologue, the steady step and the last step.
absl::Status CheckRendezvous(const Plan& plan);

// Of a plan that cannot deadlock where runs are posted together as they are, the order in runs is
// changed so that CheckRendezvous passes; if it does already, or cannot, nothing is.
void OrderMessages(Plan* plan);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_RENDEZVOUS_H_

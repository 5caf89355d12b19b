// Whether a plan's messages pair up and cannot deadlock under blocking rendezvous.
//
// The strictest reading of a plan: each rank runs its list in order; a maximal run of consecutive
// SEND and RECV instructions is posted together and must be complete before the next instruction;
// messages between two ranks match in order; a REDUCE_GRADS, GATHER_PARAMS or SYNC_PARAMS waits for
// all ranks of all stages of the same layers, an OPTIMIZER_STEP with a global norm, and a FLUSH,
// for all ranks. What passes cannot deadlock under any transport with as much or more buffering.
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

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_RENDEZVOUS_H_

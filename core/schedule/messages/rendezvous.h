// Checks that a plan's messages pair up and cannot deadlock under blocking rendezvous.
//
// Model, the strictest reading of a plan:
//   - Each rank runs its list in order.
//   - A maximal run of consecutive SEND and RECV instructions is posted together, and must complete
//     before the next instruction.
//   - Exception: of several messages of a run from one rank to another, only the first is posted
//     immediately. Before the next one, all messages of the run that precede it in the list and go
//     the same way (to a higher or to a lower rank) must be complete, as over NCCL
//     (core/comm/nccl/message_runs.h).
//   - Messages between two ranks match in order (match_messages.h).
//   - REDUCE_GRADS, GATHER_PARAMS and SYNC_PARAMS wait for all ranks of the weight group.
//     OPTIMIZER_STEP with a global norm waits for all ranks, and so does FLUSH.
//
// A plan that passes cannot deadlock under any transport with at least this much buffering.
#ifndef DPIPE_CORE_SCHEDULE_MESSAGES_RENDEZVOUS_H_
#define DPIPE_CORE_SCHEDULE_MESSAGES_RENDEZVOUS_H_

#include "core/base/status.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/messages/match_messages.h"

namespace dpipe {

// Checks that messages pair up, and that the prologue, the steady step and the last step each run
// to completion. InvalidArgument, naming the instruction that blocks, if not.
absl::Status CheckRendezvous(const Plan& plan);

// Reorders messages within runs so that CheckRendezvous passes. Works for every plan that cannot
// deadlock if each run is posted as a whole. Does nothing if the plan passes already, or if no
// order can pass.
void OrderMessages(Plan* plan);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MESSAGES_RENDEZVOUS_H_

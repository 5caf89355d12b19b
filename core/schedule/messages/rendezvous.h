// Whether a plan's messages pair up and cannot deadlock under blocking rendezvous.
//
// The strictest reading of a plan: each rank runs its list in order. A maximal run of consecutive
// SEND and RECV instructions is posted together and must be complete before the next instruction;
// but of several messages from one rank to another only the first is posted at once: before the
// second, the run's messages of the same way, to higher or to lower ranks, that precede it in the
// list must be through, as over NCCL (core/comm/nccl/message_runs.h). Messages between two ranks
// match in order (match_messages.h). A REDUCE_GRADS, GATHER_PARAMS or SYNC_PARAMS waits for all
// ranks of the weight group, an OPTIMIZER_STEP with a global norm, and a FLUSH, for all ranks. What
// passes cannot deadlock under any transport with as much or more buffering.
#ifndef DPIPE_CORE_SCHEDULE_MESSAGES_RENDEZVOUS_H_
#define DPIPE_CORE_SCHEDULE_MESSAGES_RENDEZVOUS_H_

#include "core/base/status.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/messages/match_messages.h"

namespace dpipe {

// Pairing, and progress to the end, of the prologue, the steady step and the last step.
absl::Status CheckRendezvous(const Plan& plan);

// Changes the order of messages within runs so that CheckRendezvous passes, for a plan that cannot
// deadlock where runs are posted as a whole. Leaves the plan as it is if it passes already, or if
// no order does.
void OrderMessages(Plan* plan);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MESSAGES_RENDEZVOUS_H_

// Which SEND belongs to which RECV, in time linear in their number.
#ifndef DPIPE_CORE_SIM_PAIR_MESSAGES_H_
#define DPIPE_CORE_SIM_PAIR_MESSAGES_H_

#include <vector>

#include "core/base/status.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

struct MessageEnd {
  int rank = 0;
  int instruction = 0;
};

struct MessagePair {
  MessageEnd send, recv;
};

// The k-th SEND of one rank to another with the k-th RECV there from it; by (receiver, sender,
// order). Peers must be ranks of the plan. InvalidArgument, as MatchMessages (rendezvous.h), if one
// is left over or two differ in payload, stages, component, micro-batch, samples, bytes or step.
absl::StatusOr<std::vector<MessagePair>> PairMessages(const Plan& plan);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_PAIR_MESSAGES_H_

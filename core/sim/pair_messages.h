// Pairs SENDs with RECVs in linear time.
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

// Pairs the k-th SEND from one rank to another with the k-th RECV there from it; sorted by
// (receiver, sender, order). Peers must be ranks of the plan. Returns InvalidArgument, as
// MatchMessages does (rendezvous.h), if a message is unpaired or a pair differs in payload, stages,
// component, micro-batch, samples, bytes or step.
absl::StatusOr<std::vector<MessagePair>> PairMessages(const Plan& plan);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_PAIR_MESSAGES_H_

// Checks the indices of a plan that the simulator relies on. VerifyPlan checks everything else.
#ifndef DPIPE_CORE_SIM_CHECK_PLAN_H_
#define DPIPE_CORE_SIM_CHECK_PLAN_H_

#include <vector>

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// Returns InvalidArgument if the plan is for another number of devices, if a rank holds no stage,
// or if a stage, component, layer, micro-batch, peer or range of samples does not exist. The
// message names rank or stage, instruction, field and both values.
absl::Status CheckPlanIndices(const Plan& plan, const CostModel& cost);

// Returns the plan's chains. If it names none, all of its stages form one chain.
std::vector<PipelineChain> ChainsOf(const Plan& plan);

// Returns the maximum number of micro-batches of any chain.
int MaxMicroBatches(const Plan& plan);

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
// component, micro-batch, samples, bytes or step. Linear time.
absl::StatusOr<std::vector<MessagePair>> PairMessages(const Plan& plan);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_CHECK_PLAN_H_

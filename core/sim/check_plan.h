// The indices of a plan that the simulator relies on: VerifyPlan says more.
#ifndef DPIPE_CORE_SIM_CHECK_PLAN_H_
#define DPIPE_CORE_SIM_CHECK_PLAN_H_

#include <vector>

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// InvalidArgument, naming rank or stage, instruction, field and both values, if the plan is for
// another number of devices, a rank holds no stage, or a stage, component, layer, micro-batch, peer
// or range of samples does not exist.
absl::Status CheckPlanIndices(const Plan& plan, const CostModel& cost);

// The chains of a plan; of one that names none, all of its stages in a row.
std::vector<PipelineChain> ChainsOf(const Plan& plan);

// The most micro-batches of any chain.
int MostMicroBatches(const Plan& plan);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_CHECK_PLAN_H_

// Duration of OPTIMIZER_STEP on each rank of a plan.
#ifndef DPIPE_CORE_SIM_OPTIMIZER_TIME_H_
#define DPIPE_CORE_SIM_OPTIMIZER_TIME_H_

#include <vector>

#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// Returns, by rank and at the rank's speed, the optimizer's fixed time plus the shares of the
// layers of its gradient-carrying stages. Each such stage holds its own weights; the first lap of
// self-conditioning has none. A rank takes its part of a sharded stage's share. The stages of
// `plan` must name existing layers and ranks. O(stages x ranks per stage).
std::vector<Nanos> OptimizerTimes(const Plan& plan, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_OPTIMIZER_TIME_H_

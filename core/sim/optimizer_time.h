// How long OPTIMIZER_STEP takes on each rank of a plan.
#ifndef DPIPE_CORE_SIM_OPTIMIZER_TIME_H_
#define DPIPE_CORE_SIM_OPTIMIZER_TIME_H_

#include <vector>

#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// By rank: the optimizer's fixed part and the shares of the layers of all gradient-carrying stages
// of the rank (each holds weights of its own; the first lap of self-conditioning has none), at the
// rank's speed. Of a sharded stage's share a rank takes its part. `plan`'s stages must name layers
// and ranks that exist. O(stages x ranks of a stage).
std::vector<Nanos> OptimizerTimes(const Plan& plan, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_OPTIMIZER_TIME_H_

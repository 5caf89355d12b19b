// When a plan's passes start, for tests of filling.
#ifndef DPIPE_CORE_PLANNER_TESTING_BACKBONE_STARTS_H_
#define DPIPE_CORE_PLANNER_TESTING_BACKBONE_STARTS_H_

#include <vector>

#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// Returns, by rank in list order, when the backbone's passes of a simulated steady step start. The
// clock starts when the last of the preceding optimizer steps starts.
std::vector<std::vector<Nanos>> BackboneStarts(const Plan& plan, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_TESTING_BACKBONE_STARTS_H_

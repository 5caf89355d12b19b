// Random damage to a plan, for tests of the verifier.
#ifndef DPIPE_CORE_SCHEDULE_TESTING_PLAN_MUTATIONS_H_
#define DPIPE_CORE_SCHEDULE_TESTING_PLAN_MUTATIONS_H_

#include <string>

#include "core/base/philox.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

struct Mutation {
  std::string what;
  // True if only the order of one rank's instructions changed: the plan may still train the same
  // model. Any other mutation changes what is computed, so the verifier must reject it.
  bool only_order = false;
};

// Damages the plan. The result always differs from the original in more than predictions.
Mutation Mutate(RandomStream& stream, Plan* plan);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TESTING_PLAN_MUTATIONS_H_

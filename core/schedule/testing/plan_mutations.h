// Random damage to a plan, for tests of verification.
#ifndef DPIPE_CORE_SCHEDULE_TESTING_PLAN_MUTATIONS_H_
#define DPIPE_CORE_SCHEDULE_TESTING_PLAN_MUTATIONS_H_

#include <string>

#include "core/base/philox.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

struct Mutation {
  std::string what;
  // Only the order of one rank's instructions changed: another order may train the same model.
  // Everything else changes what is computed, and must be refused.
  bool only_order = false;
};

// Changes the plan; it differs from what it was, other than in predictions.
Mutation Mutate(RandomStream& stream, Plan* plan);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TESTING_PLAN_MUTATIONS_H_

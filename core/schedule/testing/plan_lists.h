// A rank's list as one line, for tests that spell it out.
#ifndef DPIPE_CORE_SCHEDULE_TESTING_PLAN_LISTS_H_
#define DPIPE_CORE_SCHEDULE_TESTING_PLAN_LISTS_H_

#include <string>

#include "core/proto/plan.pb.h"

namespace dpipe {

struct ListStyle {
  bool stages = false;   // "F2.0": micro-batch 0 of stage 2
  bool samples = false;  // "F0[0,2)"
};

// "L Z F0 >1 <1 B0 R0-2 O": LOAD_BATCH, FROZEN_FORWARD, a forward pass, a SEND to and a RECV from
// rank 1, a backward pass, REDUCE_GRADS of layers [0, 2), OPTIMIZER_STEP; I and W are INPUT_GRAD
// and WEIGHT_GRAD, C is RECOMPUTE, X is FLUSH, G and D are GATHER_PARAMS and RELEASE_PARAMS of
// layers, S is SYNC_PARAMS; "O3" is the update that ends with micro-batch 3 of a relaxed plan.
std::string ListOf(const Plan& plan, int rank, const ListStyle& style = {});

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TESTING_PLAN_LISTS_H_

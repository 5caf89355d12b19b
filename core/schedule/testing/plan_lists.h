// Prints a rank's instructions on one line, for tests that spell them out.
#ifndef DPIPE_CORE_SCHEDULE_TESTING_PLAN_LISTS_H_
#define DPIPE_CORE_SCHEDULE_TESTING_PLAN_LISTS_H_

#include <string>

#include "core/proto/plan.pb.h"

namespace dpipe {

struct ListStyle {
  bool stages = false;   // "F2.0" is micro-batch 0 of stage 2
  bool samples = false;  // "F0[0,2)" adds the sample range
};

// Returns for example "L Z F0 >1 <1 B0 R0-2 O". The letters:
//
//   L  LOAD_BATCH            Z  FROZEN_FORWARD           O  OPTIMIZER_STEP
//   F  FORWARD               C  RECOMPUTE                X  FLUSH
//   B  BACKWARD              I  INPUT_GRAD               W  WEIGHT_GRAD
//   >1 SEND to rank 1        <1 RECV from rank 1         R0-2 REDUCE_GRADS of layers [0, 2)
//   G0-2 GATHER_PARAMS       D0-2 RELEASE_PARAMS         S0-2 SYNC_PARAMS, also of layers
//
// "O3" is the update of a relaxed plan that ends with micro-batch 3.
std::string ListOf(const Plan& plan, int rank, const ListStyle& style = {});

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TESTING_PLAN_LISTS_H_

// Runs a plan on symbols instead of tensors, to prove that two plans train the same model.
//
// Every value is a hash of how it came about: a layer's output of the layer, its input, its weights
// and the frozen outputs it reads; a gradient of what it was computed from; a weight of its
// gradients, in the order in which they were added. So equal weights at the end mean equal
// computations. It shares no code with VerifyPlan.
#ifndef DPIPE_CORE_SCHEDULE_SYMBOLIC_RUN_H_
#define DPIPE_CORE_SCHEDULE_SYMBOLIC_RUN_H_

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// [rank][layer of the rank's stage]: the weights after `num_steps` steps with prologue and last
// step. An error if an instruction finds something missing, or no rank can go on (sends never block
// here).
absl::StatusOr<std::vector<std::vector<uint64_t>>> RunSymbolically(const Plan& plan,
                                                                   const CostModel& cost,
                                                                   int num_steps);

// What the same ranks' weights must be, computed without the plan's instructions: one sample after
// another, whole model, gradients added per micro-batch and rank and reduced over the ranks of the
// stage.
std::vector<std::vector<uint64_t>> ExpectedWeights(const Plan& plan, const CostModel& cost,
                                                   int num_steps);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_SYMBOLIC_RUN_H_

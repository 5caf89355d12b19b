// Runs a plan on symbols instead of tensors, to prove that two plans train the same model.
//
// Every value is a hash of how it was computed:
//   - a layer's output: of the layer, its input, its weights and the frozen outputs that it reads;
//   - a gradient: of everything that it was computed from;
//   - a weight: of its gradients, in the order in which they were added.
// So equal weights at the end mean equal computations. A layer's input is a single symbol for all
// that it reads from earlier layers. What a boundary carries and what stays on a device is
// therefore not checked; VerifyPlan does that.
//
// Covers several stages and chains per rank, copies of weights in both directions, recomputation,
// self-conditioning and several backbones. Shares no code with VerifyPlan.
#ifndef DPIPE_CORE_SCHEDULE_TESTING_SYMBOLIC_RUN_H_
#define DPIPE_CORE_SCHEDULE_TESTING_SYMBOLIC_RUN_H_

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// Runs `num_steps` steps, with prologue and last step. Returns, [rank], the final weights of the
// layers of its gradient-carrying stages, by stage and layer. An error if an instruction lacks an
// input, or if no rank can continue. Sends never block here.
absl::StatusOr<std::vector<std::vector<uint64_t>>> RunSymbolically(const Plan& plan,
                                                                   const CostModel& cost,
                                                                   int num_steps);

// Returns what those weights must be, computed from the plan's stages and chains without its
// instructions: the whole model, one sample after another. Gradients are added per micro-batch and
// rank, and reduced over all ranks that hold a layer.
std::vector<std::vector<uint64_t>> ExpectedWeights(const Plan& plan, const CostModel& cost,
                                                   int num_steps);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TESTING_SYMBOLIC_RUN_H_

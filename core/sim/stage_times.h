// Times of a plan's backbone passes and messages by stage: the input of the lower bound.
#ifndef DPIPE_CORE_SIM_STAGE_TIMES_H_
#define DPIPE_CORE_SIM_STAGE_TIMES_H_

#include <vector>

#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// Duration of OPTIMIZER_STEP on each rank of a plan.
//
// Returns, by rank and at the rank's speed, the optimizer's fixed time plus the shares of the
// layers of its gradient-carrying stages. Each such stage holds its own weights; the first lap of
// self-conditioning has none. A rank takes its part of a sharded stage's share. The stages of
// `plan` must name existing layers and ranks. O(stages x ranks per stage).
std::vector<Nanos> OptimizerTimes(const Plan& plan, const CostModel& cost);

struct StageTimes {
  // Sums over all micro-batches of a step, by the rank's index in Stage.ranks. `spine` has forward
  // passes, recomputations, input gradients and unsplit backward passes; `weights` the weight
  // gradients.
  std::vector<Nanos> spine, weights;
  // Times of one micro-batch on the fastest rank. `gradient` is the time until its gradient can be
  // sent: the input gradient alone if the plan splits any off, otherwise the backward pass.
  Nanos forward = 0, gradient = 0, backward = 0;
  // The minimum time, over ranks and micro-batches, to receive all messages of one micro-batch from
  // the previous stage and from the next stage; and the shortest single message from the next
  // stage. 0 if there is none.
  Nanos receive_activations = 0, receive_gradients = 0, shortest_gradient = 0;
};

struct BackboneTimes {
  std::vector<StageTimes> stages;
  std::vector<Nanos> loads;      // by rank: loads of cached batches
  std::vector<Nanos> optimizer;  // by rank
  bool splits_gradients = false;
};

// Returns the times of a valid plan, in which frozen work may be missing. O(instructions).
BackboneTimes TimesOfBackbones(const Plan& plan, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_STAGE_TIMES_H_

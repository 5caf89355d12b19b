// What the backbone passes and messages of a plan take, by stage: what a lower bound is made of.
#ifndef DPIPE_CORE_SIM_STAGE_TIMES_H_
#define DPIPE_CORE_SIM_STAGE_TIMES_H_

#include <vector>

#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

struct StageTimes {
  // All micro-batches of a step, by rank of the stage (its place in Stage.ranks): forward passes,
  // recomputations, input gradients and unsplit backward passes; weight gradients by themselves.
  std::vector<Nanos> spine, weights;
  // One micro-batch, on the quickest rank. `gradient`: what its gradient waits for, which is the
  // input gradient alone where a plan splits any off.
  Nanos forward = 0, gradient = 0, backward = 0;
  // The least time, over ranks and micro-batches, to receive all messages of one micro-batch from
  // the stage before and the stage after; and the shortest single message from the stage after.
  // 0 where there is none.
  Nanos receive_activations = 0, receive_gradients = 0, shortest_gradient = 0;
};

struct BackboneTimes {
  std::vector<StageTimes> stages;
  std::vector<Nanos> loads;      // by rank: of cached batches
  std::vector<Nanos> optimizer;  // by rank
  bool splits_gradients = false;
};

// Of a valid plan, whose frozen work may be missing. O(instructions).
BackboneTimes TimesOfBackbones(const Plan& plan, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_STAGE_TIMES_H_

// How fast a step could possibly be. [algorithms.md §4, Bound]
//
// Given the stages, micro-batches, messages and backbone passes of a plan, no order of its
// instructions and no placement of frozen work, within a step or across steps, has a steady step
// (TraceStats.step_ns) shorter than the largest of
//   work    all compute of a step over the devices: backbone passes, optimizer, and the frozen
//           layers each at its least time per sample over the local batches it may run at; devices
//           count by their speed;
//   device  the backbone passes and the optimizer of the busiest rank;
//   path    for every chain and every device that holds stages of it: the optimizer step where the
//           chain begins; the way in: forward passes and links of one micro-batch through the
//           chain's stages before the device's first; all passes of the chain's stages on the
//           device that a gradient depends on; the way out: input gradients and links through the
//           gradient-carrying stages before the device's first such stage;
//   common  with a global norm, for every device: the least way in of any of its chains, all of its
//           passes, the least way out.
//
// Proof of the third. Let E_k be the earliest end of OPTIMIZER_STEP k on a rank of the chain's
// first stage. (A first lap of self-conditioning lies on the same ranks as the second.) The chain's
// first forward pass of step k + 1 starts no earlier. A sample's place within its micro-batch
// decides which rank of every stage holds it, so follow one place x. On the device's rank that
// holds x, no pass of this chain can start before the way in: a forward pass needs all of its
// samples, and one receive engine takes their messages in turn. The last of the passes counted
// there is an input gradient or a backward pass of some stage of it, since after every forward pass
// (of either lap) and recomputation one follows for its micro-batch. The gradient of x then has to
// go back through every gradient-carrying stage before that one, each a transfer of at least the
// shortest message on that link and an input gradient, to the rank of the chain's beginning that
// holds x; its weight gradient and its OPTIMIZER_STEP k + 1 come after. As this is so for every x,
// E_{k+1} - E_k is at least the sum, taking the least time over the ranks of each stage. So is the
// step: the rank that gave E at the first of n steps takes at least n times the sum.
//   Where no input gradients are split off, backward passes of a stage come in micro-batch order,
// so all ranks of a device with one gradient-carrying stage of the chain end with the same
// micro-batch, and all messages of it queue up behind the receive engine: their sum counts instead
// of the shortest. With a global norm all ranks start the optimizer together, so that what holds of
// any rank holds of all: that is the fourth.
//   Contention, queueing, collectives, flushes and waiting for frozen outputs only add.
#ifndef DPIPE_CORE_SIM_LOWER_BOUND_H_
#define DPIPE_CORE_SIM_LOWER_BOUND_H_

#include <vector>

#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

struct StepBound {
  Nanos work_ns = 0;
  Nanos device_ns = 0;
  std::vector<Nanos> path_ns;     // by stage: of its chain's stages on its device
  Nanos common_ns = 0;            // 0 without a global norm
  Nanos micro_batch_path_ns = 0;  // one micro-batch through all stages and back, and the optimizer
  Nanos bound_ns = 0;             // the largest
};

// `plan` must be valid but for its frozen work, which may be missing. O(instructions).
StepBound StepLowerBound(const Plan& plan, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_LOWER_BOUND_H_

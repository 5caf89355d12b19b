// A lower bound of the step time. [algorithms.md §4, Bound]
//
// Fix the stages, micro-batches, messages and backbone passes of a plan. For any order of its
// instructions and any placement of frozen work, within a step or across steps, a steady step
// (TraceStats.step_ns) takes at least the largest of
//   work    all compute of a step over the devices: backbone passes, optimizer, and frozen layers,
//           each at its minimum time per sample over the local batches at which it may run; devices
//           count by their speed;
//   device  the backbone passes and the optimizer of the busiest rank;
//   path    for every chain and every device that holds stages of it, the sum of
//           - the optimizer step where the chain begins;
//           - the way in: forward passes and links of one micro-batch through the chain's stages
//             before the device's first;
//           - all passes of the chain's stages on the device that a gradient depends on;
//           - the way out: input gradients and links through the gradient-carrying stages before
//             the device's first such stage;
//   common  with a global norm, for every device: the minimum way in of any of its chains, all of
//           its passes, the minimum way out.
//
// Proof of `path`. Let E_k be the earliest end of OPTIMIZER_STEP k on a rank of the chain's first
// stage. (A first lap of self-conditioning runs on the same ranks as the second.)
//
// 1. The chain's first forward pass of step k + 1 starts at E_k or later.
// 2. A sample's place within its micro-batch determines which rank of every stage holds it, so
//    follow one place x.
// 3. On the device's rank that holds x, no pass of this chain starts before the way in has passed:
//    a forward pass needs all of its samples, and one receive engine takes their messages in turn.
// 4. The last of the counted passes there is an input gradient or a backward pass of one of the
//    device's stages, since every forward pass (of either lap) and every recomputation is followed
//    by one for its micro-batch.
// 5. The gradient of x must then go back through every gradient-carrying stage before that one, to
//    the rank of the chain's beginning that holds x. Each stage costs at least the shortest message
//    on that link and an input gradient. The first stage's weight gradient and OPTIMIZER_STEP k + 1
//    follow.
// 6. This holds for every x, so E_{k+1} - E_k is at least the sum, with the minimum time over the
//    ranks of each stage. The step takes at least as long, too: the rank that gave E at the first
//    of n steps needs at least n times the sum.
//
// If no input gradients are split off, backward passes of a stage come in micro-batch order. All
// ranks of a device with one gradient-carrying stage of the chain then end with the same
// micro-batch, and all its messages queue behind the receive engine: their sum counts instead of
// the shortest.
//
// `common` follows because with a global norm all ranks start the optimizer together, so a bound
// for any rank holds for all. Contention, queueing, collectives, flushes and waits for frozen
// outputs only add time.
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
  std::vector<Nanos> path_ns;     // by stage: the path of its chain's stages on its device
  Nanos common_ns = 0;            // 0 without a global norm
  Nanos micro_batch_path_ns = 0;  // one micro-batch through all stages and back, plus the optimizer
  Nanos bound_ns = 0;             // the maximum of all terms
};

// Returns the bound of a plan, which must be valid except that frozen work may be missing.
// O(instructions).
StepBound StepLowerBound(const Plan& plan, const CostModel& cost);

// A lower bound of the step time from the amount of work alone, for any plan.     [algorithms.md
// §4]
//
// StepLowerBound (lower_bound.h) takes a plan's stages as given. This bound holds for every
// schedule, every cut, every placement of frozen work and any number of weight replicas. The work
// is the passes of all layers on all samples, each layer's optimizer step once, and the frozen
// layers' forward passes and loads. No step is shorter than all this work shared evenly by the
// devices.
//
// Frozen layers count at their minimum time per sample. Backbone passes count at the given local
// batch or, if it is free, each layer at the local batch with the minimum time per sample. Devices
// count by their speed. Idle time, messages, reductions, recomputation and memory are ignored, so
// the bound may be unattainable.
//
// Returns the bound for a global batch that all backbones share. `local_batch` is the number of
// samples of a micro-batch that a device computes at once and divides the batch; 0 means free. Does
// not apply to plans that read frozen outputs from a cache or shard the optimizer state. With
// self-conditioning, the bound is for an average step.
Nanos WorkBound(const CostModel& cost, int global_batch, int local_batch);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_LOWER_BOUND_H_

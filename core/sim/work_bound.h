// How fast a step could be by the amount of work alone, whatever the plan.     [algorithms.md §4]
//
// StepLowerBound (lower_bound.h) takes a plan's stages as given. This bound holds for every
// schedule, every cut, every placement of frozen work and any number of copies of the weights: no
// step is shorter than the passes of all layers on all samples, each layer's optimizer step once,
// and the frozen layers' forward passes and loads, shared evenly by all devices. Frozen layers
// count at their least time per sample. Passes of the backbones count at the local batch that the
// shape fixes, or, where it is free, each layer at the local batch that takes least per sample.
// Devices count by their speed. Idle time, messages, reductions, recomputation and memory are left
// out, so that a bound may well be out of reach.
#ifndef DPIPE_CORE_SIM_WORK_BOUND_H_
#define DPIPE_CORE_SIM_WORK_BOUND_H_

#include "core/base/time.h"
#include "core/cost/cost_model.h"

namespace dpipe {

// A global batch, all backbones alike. `local_batch`: samples of a micro-batch that a device
// computes at once, which divides the batch; 0: free. Not for plans that read frozen outputs from a
// cache, nor for those that shard the optimizer's state. With self-conditioning, of an average
// step.
Nanos WorkBound(const CostModel& cost, int global_batch, int local_batch);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_WORK_BOUND_H_

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
#ifndef DPIPE_CORE_SIM_WORK_BOUND_H_
#define DPIPE_CORE_SIM_WORK_BOUND_H_

#include "core/base/time.h"
#include "core/cost/cost_model.h"

namespace dpipe {

// Returns the bound for a global batch that all backbones share. `local_batch` is the number of
// samples of a micro-batch that a device computes at once and divides the batch; 0 means free. Does
// not apply to plans that read frozen outputs from a cache or shard the optimizer state. With
// self-conditioning, the bound is for an average step.
Nanos WorkBound(const CostModel& cost, int global_batch, int local_batch);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_WORK_BOUND_H_

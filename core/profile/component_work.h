// The work of a component, derived from its program. With roofline::ModelledProfile it gives the
// profile of a model on a device that is not available.
#ifndef DPIPE_CORE_PROFILE_COMPONENT_WORK_H_
#define DPIPE_CORE_PROFILE_COMPONENT_WORK_H_

#include "core/cost/roofline/modelled_profile.h"
#include "core/nn/model.h"

namespace dpipe {

// Describes the component in bf16 and adds the work of its nodes. A layer saves each value that its
// backward passes read, once. Its workspace consists of all values that only this layer reads, live
// at the same time. Computes and allocates no tensors.
roofline::ComponentWork WorkOf(const nn::Component& component);

// Returns the multiply-adds of a sample's training step, by the rules of
// core/cost/roofline/op_work.h: the backbones' forward and backward passes, and the frozen
// components' forward passes if `with_frozen`. Work that a plan repeats (recomputation) does not
// count, nor does the first pass of self-conditioning.
double MacsPerSample(const nn::Model& model, bool with_frozen);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_COMPONENT_WORK_H_

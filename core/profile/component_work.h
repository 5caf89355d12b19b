// The work of a component, from its program. With roofline::ModelledProfile it gives the profile of
// a model on a device that is not there.
#ifndef DPIPE_CORE_PROFILE_COMPONENT_WORK_H_
#define DPIPE_CORE_PROFILE_COMPONENT_WORK_H_

#include "core/cost/roofline/modelled_profile.h"
#include "core/nn/model.h"

namespace dpipe {

// Describes the component in bf16 and adds its nodes' work. A layer keeps each value that its
// backward passes read once; its workspace are the values that only it reads, all at once. Nothing
// is computed or allocated.
roofline::ComponentWork WorkOf(const nn::Component& component);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_COMPONENT_WORK_H_

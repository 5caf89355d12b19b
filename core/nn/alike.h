// Whether two models are one at different sizes: what steps of several image sizes need to share a
// plan and a set of parameters.
#ifndef DPIPE_CORE_NN_ALIKE_H_
#define DPIPE_CORE_NN_ALIKE_H_

#include "core/base/status.h"
#include "core/nn/model.h"

namespace dpipe::nn {

// OK where the models differ in nothing but their names and the shapes of their values: the same
// components fed in the same way, the same layers, nodes and values in the same order, and the same
// parameters with the same shapes. Ids of one are then ids of the other, what crosses a cut is the
// same, and a ParameterSet of one fits the other. InvalidArgument names the first difference, with
// both sides.
absl::Status CheckAlike(const Model& a, const Model& b);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_ALIKE_H_

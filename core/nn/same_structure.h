// Checks that two models differ only in the sizes of their values. They can then share a plan and a
// set of parameters, which lets a run train on images of several sizes.
#ifndef DPIPE_CORE_NN_SAME_STRUCTURE_H_
#define DPIPE_CORE_NN_SAME_STRUCTURE_H_

#include "core/base/status.h"
#include "core/nn/model.h"

namespace dpipe::nn {

// Returns OK if the models differ only in their names and the shapes of their values. Components,
// their sources, layers, nodes and values must be the same and in the same order; parameters must
// also have the same shapes. Ids then mean the same in both models, the same values cross a cut,
// and a ParameterSet of one fits the other. Otherwise returns InvalidArgument, which names the
// first difference and shows both sides.
absl::Status CheckSameStructure(const Model& a, const Model& b);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_SAME_STRUCTURE_H_

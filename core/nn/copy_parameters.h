// Copies parameters to a device that has its own memory.
#ifndef DPIPE_CORE_NN_COPY_PARAMETERS_H_
#define DPIPE_CORE_NN_COPY_PARAMETERS_H_

#include <memory>
#include <vector>

#include "core/nn/parameters.h"

namespace dpipe::nn {

// Copies the masters of some layers of a set to `device`, for forward passes only: there is no room
// for gradients. The other layers have none in the copy. Ranges may overlap.
std::unique_ptr<ParameterSet> CopyParameters(const ParameterSet& parameters,
                                             const std::vector<LayerRange>& layers,
                                             const std::shared_ptr<Device>& device);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_COPY_PARAMETERS_H_

// Copies parameters to a device that has its own memory.
#ifndef DPIPE_CORE_NN_COPY_PARAMETERS_H_
#define DPIPE_CORE_NN_COPY_PARAMETERS_H_

#include <memory>

#include "core/nn/parameters.h"

namespace dpipe::nn {

// Copies a set's masters to `device`, for forward passes only: there is no room for gradients.
std::unique_ptr<ParameterSet> CopyParameters(const ParameterSet& parameters,
                                             const std::shared_ptr<Device>& device);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_COPY_PARAMETERS_H_

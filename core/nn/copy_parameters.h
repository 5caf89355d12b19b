// Parameters for a device that has memory of its own.
#ifndef DPIPE_CORE_NN_COPY_PARAMETERS_H_
#define DPIPE_CORE_NN_COPY_PARAMETERS_H_

#include <memory>

#include "core/nn/parameters.h"

namespace dpipe::nn {

// Copies of a set's masters on `device`, to run passes with, without room for gradients.
std::unique_ptr<ParameterSet> CopyParameters(const ParameterSet& parameters,
                                             const std::shared_ptr<Device>& device);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_COPY_PARAMETERS_H_

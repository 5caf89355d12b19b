#include "core/nn/copy_parameters.h"

#include <map>
#include <string>

namespace dpipe::nn {

absl::StatusOr<std::unique_ptr<ParameterSet>> CopyParameters(
    const ParameterSet& parameters, const std::shared_ptr<Device>& device) {
  std::map<std::string, Tensor> there;
  for (ParameterId id : parameters.ids()) {
    there[parameters.program().parameter(id).name] = parameters.weight(id).master().CopyTo(device);
  }
  return ParameterSet::Sharing(parameters.program(), parameters.layers(), device, there);
}

}  // namespace dpipe::nn

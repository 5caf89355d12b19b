#include "core/nn/copy_parameters.h"

namespace dpipe::nn {

std::unique_ptr<ParameterSet> CopyParameters(const ParameterSet& parameters,
                                             const std::shared_ptr<Device>& device) {
  // On demand, because an ordinary set allocates gradients.
  auto copy = ParameterSet::OnDemand(parameters.program(), parameters.layers(), device);
  copy->AllocateMasters(parameters.layers());
  for (ParameterId id : parameters.ids()) {
    ops::Weight* const weight = copy->mutable_weight(id);
    Tensor master = weight->master();
    master.CopyFrom(parameters.weight(id).master());
    weight->MarkUpdated();
  }
  return copy;
}

}  // namespace dpipe::nn

#include "core/nn/copy_parameters.h"

namespace dpipe::nn {

std::unique_ptr<ParameterSet> CopyParameters(const ParameterSet& parameters,
                                             const std::vector<LayerRange>& layers,
                                             const std::shared_ptr<Device>& device) {
  // On demand, because an ordinary set allocates gradients.
  auto copy = ParameterSet::OnDemand(parameters.program(), parameters.layers(), device);
  for (const LayerRange& range : layers) {
    for (int layer = range.begin; layer < range.end; ++layer) {
      if (copy->HasMasters({layer, layer + 1})) continue;
      copy->AllocateMasters({layer, layer + 1});
      const auto [begin, end] = parameters.program().ParameterRange({layer, layer + 1});
      for (ParameterId id(begin); id.value() < end; id = ParameterId(id.value() + 1)) {
        Tensor(copy->weight(id).master()).CopyFrom(parameters.weight(id).master());
      }
    }
  }
  return copy;
}

}  // namespace dpipe::nn

#include "core/profile/describe.h"

#include <vector>

#include "core/base/time.h"

namespace dpipe {
namespace {

LayerKind ProtoKind(nn::LayerKind kind) {
  switch (kind) {
    case nn::LayerKind::kTrainable:
      return TRAINABLE;
    case nn::LayerKind::kFrozen:
      return FROZEN;
    case nn::LayerKind::kFrozenWithGradient:
      return FROZEN_WITH_GRADIENT;
  }
  return LAYER_KIND_UNSPECIFIED;
}

}  // namespace

ComponentProfile DescribeComponent(const nn::Component& component, DType compute_dtype) {
  const nn::Program& program = component.program;
  ComponentProfile profile;
  profile.set_name(component.name);
  profile.set_is_backbone(component.is_backbone);
  for (int l = 0; l < program.num_layers(); ++l) {
    LayerProfile* layer = profile.add_layers();
    layer->set_name(program.layer(l).name);
    layer->set_kind(ProtoKind(program.layer(l).kind));
    layer->set_parameter_bytes(program.ParameterBytes({l, l + 1}));
    layer->set_trainable_parameter_bytes(program.TrainableParameterCount({l, l + 1}) *
                                         SizeOf(DType::kF32));
  }
  for (int v = 0; v < program.num_values(); ++v) {
    const nn::ValueInfo& info = program.value(ValueId(v));
    // Only consumers in other layers count; values within one layer are not part of the profile.
    std::vector<int> consumers;
    for (nn::NodeId use : info.uses) {
      const int layer = program.node(use).layer;
      if (layer != info.layer && (consumers.empty() || consumers.back() != layer)) {
        consumers.push_back(layer);
      }
    }
    if (consumers.empty() && !info.is_output) continue;
    ValueProfile* value = profile.add_values();
    value->set_name(info.name);
    value->set_bytes_per_sample(program.BytesPerSample(ValueId(v), compute_dtype));
    value->set_producer_layer(info.layer);
    for (int layer : consumers) value->add_consumer_layers(layer);
    value->set_has_gradient(info.has_gradient);
    value->set_is_output(info.is_output);
    const auto source = component.sources.find(info.name);
    if (info.is_external() && source != component.sources.end()) {
      value->set_source_component(source->second.component);
      value->set_source_value(source->second.output);
    }
  }
  if (!component.self_conditioning.input.empty()) {
    profile.set_self_conditioning_bytes_per_sample(program.BytesPerSample(
        program.InputNamed(component.self_conditioning.input), compute_dtype));
  }
  return profile;
}

ModelProfile DescribeModel(const nn::Model& model, DType compute_dtype, int frozen_quantum,
                           const std::string& device_name) {
  ModelProfile profile;
  profile.set_model(model.name());
  profile.set_device(device_name);
  profile.set_dtype(std::string(DTypeName(compute_dtype)));
  profile.set_frozen_quantum(frozen_quantum);
  profile.set_launch_overhead_ns(kNanosPerMicro);
  for (int i = 0; i < model.num_components(); ++i) {
    *profile.add_components() = DescribeComponent(model.component(i), compute_dtype);
  }
  return profile;
}

}  // namespace dpipe

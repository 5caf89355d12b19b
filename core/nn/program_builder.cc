#include "core/nn/program_builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe::nn {

ProgramBuilder::ProgramBuilder(std::string name) { program_.name_ = std::move(name); }

ValueId ProgramBuilder::AddInput(const std::string& name, const ValueType& type) {
  DPIPE_CHECK(input_names_.insert(name).second) << "input '" << name << "' twice";
  const ValueId id(program_.num_values());
  ValueInfo value;
  value.name = name;
  value.type = type;
  program_.values_.push_back(std::move(value));
  program_.inputs_.push_back(id);
  return id;
}

void ProgramBuilder::BeginLayer(const std::string& name, LayerKind kind) {
  DPIPE_CHECK(layer_names_.insert(name).second) << "layer '" << name << "' twice";
  LayerInfo layer;
  layer.name = name;
  layer.kind = kind;
  layer.begin_node = layer.end_node = static_cast<int>(program_.nodes_.size());
  layer.begin_parameter = layer.end_parameter = program_.num_parameters();
  program_.layers_.push_back(std::move(layer));
}

ParameterId ProgramBuilder::AddParameter(const std::string& name, const Shape& shape,
                                         const InitRule& init, bool decay) {
  DPIPE_CHECK(!program_.layers_.empty()) << "parameter '" << name << "' before any layer";
  DPIPE_CHECK(parameter_names_.insert(name).second) << "parameter '" << name << "' twice";
  const ParameterId id(program_.num_parameters());
  const bool trainable =
      program_.layers_.back().kind == LayerKind::kTrainable && !freeze_parameters_;
  program_.parameters_.push_back({name, shape, init, decay, program_.num_layers() - 1, trainable});
  program_.layers_.back().end_parameter = program_.num_parameters();
  return id;
}

ValueId ProgramBuilder::AddNode(std::unique_ptr<const Node> node,
                                const std::vector<ValueId>& inputs,
                                const std::vector<ParameterId>& parameters) {
  DPIPE_CHECK(!program_.layers_.empty()) << "a node before any layer";
  DPIPE_CHECK_LE(inputs.size(), size_t{32});
  const int layer = program_.num_layers() - 1;
  const NodeId node_id(static_cast<int>(program_.nodes_.size()));
  const ValueId output(program_.num_values());
  for (ValueId input : inputs) {
    DPIPE_CHECK(0 <= input.value() && input.value() < output.value());
    ValueInfo& value = program_.values_[input.value()];
    if (value.uses.empty() || value.uses.back() != node_id) value.uses.push_back(node_id);
    value.last_layer = layer;
  }
  for (ParameterId parameter : parameters) {
    const ParameterInfo& info = program_.parameter(parameter);
    DPIPE_CHECK_EQ(info.layer, layer) << info.name;
    DPIPE_CHECK_EQ(info.trainable, program_.parameter(parameters[0]).trainable) << info.name;
  }
  ValueInfo value;
  value.name = absl::StrCat(program_.layers_.back().name, "/", node->kind(), "_",
                            node_id.value() - program_.layers_.back().begin_node);
  value.type = node->output();
  value.producer = node_id;
  value.layer = layer;
  program_.values_.push_back(std::move(value));
  NodeInfo info;
  info.node = std::move(node);
  info.inputs = inputs;
  info.output = output;
  info.parameters = parameters;
  info.layer = layer;
  program_.nodes_.push_back(std::move(info));
  program_.layers_.back().end_node = static_cast<int>(program_.nodes_.size());
  return output;
}

void ProgramBuilder::MarkOutput(ValueId value, const std::string& name) {
  ValueInfo& info = program_.values_[value.value()];
  DPIPE_CHECK(!info.is_external() && !info.is_output) << "output '" << name << "'";
  info.is_output = true;
  info.name = name;
  program_.outputs_.push_back(value);
}

void ProgramBuilder::FindGradients() {
  for (NodeInfo& node : program_.nodes_) {
    const LayerInfo& layer = program_.layers_[node.layer];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueInfo& input = program_.value(node.inputs[i]);
      if (!input.has_gradient || node.node->stops_gradient()) continue;
      DPIPE_CHECK(layer.kind != LayerKind::kFrozen) << "frozen layer '" << layer.name << "' reads '"
                                                    << input.name << "', which has a gradient";
      node.input_grad_mask |= 1u << i;
    }
    node.wants_weight_grad =
        !node.parameters.empty() && program_.parameter(node.parameters[0]).trainable;
    ValueInfo& output = program_.values_[node.output.value()];
    output.has_gradient = node.has_backward() && output.type.element != Element::kI32;
  }
}

void ProgramBuilder::FindLiveness() {
  const int num_cuts = program_.num_layers() + 1;
  program_.live_at_.resize(num_cuts);
  program_.gradients_at_.resize(num_cuts);
  for (int i = 0; i < program_.num_values(); ++i) {
    const ValueInfo& value = program_.values_[i];
    if (value.is_external()) continue;
    DPIPE_CHECK(!value.uses.empty() || value.is_output)
        << "value '" << value.name << "' is never read";
    DPIPE_CHECK(value.uses.empty() || !value.is_output || !value.has_gradient)
        << "output '" << value.name << "' has a gradient and is read";
    for (int cut = value.layer + 1; cut <= value.last_layer; ++cut) {
      program_.live_at_[cut].push_back(ValueId(i));
      if (value.has_gradient) program_.gradients_at_[cut].push_back(ValueId(i));
    }
  }
}

Program ProgramBuilder::Build() {
  FindGradients();
  FindLiveness();
  return std::move(program_);
}

}  // namespace dpipe::nn

#include "core/nn/same_structure.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dpipe::nn {
namespace {

absl::Status Differ(const std::string& what, const std::string& a, const std::string& b) {
  if (a == b) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the models differ: ", what, " is ", a, " in one and ", b, " in the other"));
}

template <typename Ids>
std::string IdsText(const Ids& ids) {
  return absl::StrCat(
      "[",
      absl::StrJoin(ids, ", ", [](std::string* out, auto id) { absl::StrAppend(out, id.value()); }),
      "]");
}

std::string LayerText(const LayerInfo& layer) {
  return absl::StrCat("'", layer.name, "', ", LayerKindName(layer.kind), ", of nodes [",
                      layer.begin_node, ", ", layer.end_node, ") and parameters [",
                      layer.begin_parameter, ", ", layer.end_parameter, ")");
}

std::string ParameterText(const ParameterInfo& parameter) {
  return absl::StrCat("'", parameter.name, "' ", parameter.shape.ToString(),
                      parameter.trainable ? "" : ", frozen", parameter.decay ? "" : ", no decay");
}

std::string NodeText(const NodeInfo& node) {
  return absl::StrCat(std::string(node.node->kind()), " of values ", IdsText(node.inputs),
                      " and parameters ", IdsText(node.parameters), " to ", node.output.value(),
                      ", gradients ", node.input_grad_mask,
                      node.wants_weight_grad ? " and own" : "");
}

// Returns all properties but the sizes of its dimensions.
std::string ValueText(const ValueInfo& value) {
  return absl::StrCat("'", value.name, "' of rank ", value.type.shape.rank(), ", element ",
                      static_cast<int>(value.type.element), ", by ", value.producer.value(),
                      " for ", IdsText(value.uses), value.is_output ? ", an output" : "",
                      value.has_gradient ? ", with a gradient" : "");
}

absl::Status CheckPrograms(const Program& a, const Program& b, const std::string& place) {
  const auto counts = [](const Program& program) {
    return absl::StrCat(program.num_layers(), " layers, ", program.num_values(), " values, ",
                        program.num_parameters(), " parameters");
  };
  DPIPE_RETURN_IF_ERROR(Differ(place, counts(a), counts(b)));
  for (int i = 0; i < a.num_layers(); ++i) {
    DPIPE_RETURN_IF_ERROR(
        Differ(absl::StrCat(place, ", layer ", i), LayerText(a.layer(i)), LayerText(b.layer(i))));
  }
  for (int i = 0; i < a.num_parameters(); ++i) {
    const ParameterId id(i);
    DPIPE_RETURN_IF_ERROR(Differ(absl::StrCat(place, ", parameter ", i),
                                 ParameterText(a.parameter(id)), ParameterText(b.parameter(id))));
  }
  for (int i = 0; i < a.num_values(); ++i) {
    const ValueId id(i);
    DPIPE_RETURN_IF_ERROR(
        Differ(absl::StrCat(place, ", value ", i), ValueText(a.value(id)), ValueText(b.value(id))));
    const NodeId producer = a.value(id).producer;
    if (producer == NodeId()) continue;
    DPIPE_RETURN_IF_ERROR(Differ(absl::StrCat(place, ", node ", producer.value()),
                                 NodeText(a.node(producer)), NodeText(b.node(producer))));
  }
  const auto order = [](const Program& program) {
    return absl::StrCat("inputs ", IdsText(program.inputs()), ", outputs ",
                        IdsText(program.outputs()));
  };
  return Differ(place, order(a), order(b));
}

std::string ComponentText(const Component& component) {
  std::string text =
      absl::StrCat("'", component.name, "', ", component.is_backbone ? "a backbone" : "frozen");
  for (const auto& [input, source] : component.sources) {
    absl::StrAppend(&text, ", ", input, " from ", source.component, ".", source.output);
  }
  const SelfConditioning& self = component.self_conditioning;
  if (!self.input.empty()) absl::StrAppend(&text, ", ", self.input, " from its own ", self.output);
  return text;
}

}  // namespace

absl::Status CheckSameStructure(const Model& a, const Model& b) {
  const auto count = [](const Model& model) { return absl::StrCat(model.num_components()); };
  DPIPE_RETURN_IF_ERROR(Differ("the number of components", count(a), count(b)));
  for (int i = 0; i < a.num_components(); ++i) {
    const Component& component = a.component(i);
    DPIPE_RETURN_IF_ERROR(Differ(absl::StrCat("component ", i), ComponentText(component),
                                 ComponentText(b.component(i))));
    DPIPE_RETURN_IF_ERROR(CheckPrograms(component.program, b.component(i).program,
                                        absl::StrCat("component ", component.name)));
  }
  return absl::OkStatus();
}

}  // namespace dpipe::nn

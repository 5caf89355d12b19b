#include "core/nn/model.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dpipe::nn {
namespace {

// Returns the value in `values` with this name; invalid if there is none.
ValueId FindValue(const Program& program, absl::Span<const ValueId> values,
                  const std::string& name) {
  for (ValueId id : values) {
    if (program.value(id).name == name) return id;
  }
  return ValueId();
}

absl::Status CheckSource(const Model& model, const Component& component, const std::string& input,
                         const InputSource& source, int index) {
  const std::string place = absl::StrCat("component ", component.name, ", input ", input, ": ");
  const ValueId in = FindValue(component.program, component.program.inputs(), input);
  if (in == ValueId()) return absl::InvalidArgumentError(place + "its program has no such input");
  const int from = model.FindComponent(source.component);
  if (from < 0 || from >= index) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, "source ", source.component, " is not among the components before it"));
  }
  if (model.component(from).is_backbone) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, "source ", source.component, " is a backbone"));
  }
  const Program& producer = model.component(from).program;
  const ValueId out = FindValue(producer, producer.outputs(), source.output);
  if (out == ValueId()) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, source.component, " has no output ", source.output));
  }
  const ValueType& wanted = component.program.value(in).type;
  const ValueType& given = producer.value(out).type;
  if (wanted.shape != given.shape || wanted.element != given.element) {
    return absl::InvalidArgumentError(absl::StrCat(place, "needs ", wanted.shape.ToString(),
                                                   ", but ", source.component, " gives ",
                                                   given.shape.ToString()));
  }
  return absl::OkStatus();
}

absl::Status CheckSelfConditioning(const Component& component) {
  const auto& [input, output] = component.self_conditioning;
  if (input.empty() && output.empty()) return absl::OkStatus();
  const std::string place = absl::StrCat("component ", component.name, ", self-conditioning: ");
  const Program& program = component.program;
  const ValueId in = FindValue(program, program.inputs(), input);
  const ValueId out = FindValue(program, program.outputs(), output);
  if (in == ValueId() || component.sources.count(input) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, "its program has no input '", input, "' that nothing else feeds"));
  }
  if (out == ValueId() || program.value(out).has_gradient) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, "its program has no output '", output, "' without a gradient"));
  }
  const ValueType& wanted = program.value(in).type;
  const ValueType& given = program.value(out).type;
  if (wanted.shape == given.shape && wanted.element == given.element) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(place, input, " is ", wanted.shape.ToString(),
                                                 ", but ", output, " is ", given.shape.ToString()));
}

// Parameter names must be unique over all backbones: checkpoints and optimizers key by them.
absl::Status CheckParameterNames(const Model& model) {
  std::map<std::string, std::string> owners;
  for (int index : model.backbones()) {
    const Component& component = model.component(index);
    for (int p = 0; p < component.program.num_parameters(); ++p) {
      const std::string& name = component.program.parameter(ParameterId(p)).name;
      const auto [owner, inserted] = owners.emplace(name, component.name);
      if (inserted) continue;
      return absl::InvalidArgumentError(absl::StrCat("parameter ", name, " is in two backbones, ",
                                                     owner->second, " and ", component.name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Model> Model::Create(std::string name, std::vector<Component> components) {
  Model model;
  model.name_ = std::move(name);
  model.components_ = std::move(components);
  for (int i = 0; i < model.num_components(); ++i) {
    const Component& component = model.components_[i];
    for (const auto& [input, source] : component.sources) {
      DPIPE_RETURN_IF_ERROR(CheckSource(model, component, input, source, i));
    }
    if (!component.is_backbone) continue;
    DPIPE_RETURN_IF_ERROR(CheckSelfConditioning(component));
    const size_t num_outputs = component.program.outputs().size();
    if (num_outputs != (component.self_conditioning.input.empty() ? 1 : 2)) {
      return absl::InvalidArgumentError(
          absl::StrCat("backbone ", component.name, " has ", num_outputs,
                       " outputs; its loss must be the only one, except for a self-conditioning "
                       "estimate"));
    }
    model.backbones_.push_back(i);
  }
  if (model.backbones_.empty()) return absl::InvalidArgumentError("the model has no backbone");
  DPIPE_RETURN_IF_ERROR(CheckParameterNames(model));
  return model;
}

int Model::BackboneNumber(int component) const {
  const auto found = std::find(backbones_.begin(), backbones_.end(), component);
  return found == backbones_.end() ? -1 : static_cast<int>(found - backbones_.begin());
}

ValueId Component::loss() const {
  for (ValueId id : program.outputs()) {
    if (program.value(id).name != self_conditioning.output) return id;
  }
  return ValueId();
}

int Model::FindComponent(const std::string& name) const {
  for (int i = 0; i < num_components(); ++i) {
    if (components_[i].name == name) return i;
  }
  return -1;
}

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
                      parameter.trainable
                          ? ""
                          : absl::StrCat(", frozen in ", ops::WeightStorageName(parameter.storage)),
                      parameter.decay ? "" : ", no decay");
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

bool Model::BackbonesAreFp32() const {
  for (const int c : backbones_) {
    const Program& program = components_[c].program;
    for (int i = 0; i < program.num_parameters(); ++i) {
      if (program.parameter(ParameterId(i)).storage != ops::WeightStorage::kFp32) return false;
    }
  }
  return true;
}

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

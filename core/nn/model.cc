#include "core/nn/model.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace dpipe::nn {
namespace {

// The value of `values` with this name; invalid where there is none.
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
  const Program& producer = model.component(from).program;
  const ValueId out = FindValue(producer, producer.outputs(), source.output);
  if (out == ValueId()) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, source.component, " has no output ", source.output));
  }
  const ValueType& wanted = component.program.value(in).type;
  const ValueType& given = producer.value(out).type;
  if (wanted.shape != given.shape || wanted.element != given.element) {
    return absl::InvalidArgumentError(absl::StrCat(place, "wants ", wanted.shape.ToString(),
                                                   ", but ", source.component, " gives ",
                                                   given.shape.ToString()));
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
    if (model.backbone_ >= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("two backbones: ", model.backbone().name, " and ", component.name));
    }
    if (component.program.outputs().size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat("backbone ", component.name, " has ",
                                                     component.program.outputs().size(),
                                                     " outputs; its loss must be the only one"));
    }
    model.backbone_ = i;
  }
  if (model.backbone_ < 0) return absl::InvalidArgumentError("the model has no backbone");
  return model;
}

int Model::FindComponent(const std::string& name) const {
  for (int i = 0; i < num_components(); ++i) {
    if (components_[i].name == name) return i;
  }
  return -1;
}

}  // namespace dpipe::nn

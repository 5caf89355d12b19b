#include "core/nn/program.h"

#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/bytes.h"
#include "core/base/check.h"

namespace dpipe::nn {

DType ResolveElement(Element element, DType compute_dtype) {
  switch (element) {
    case Element::kCompute:
      return compute_dtype;
    case Element::kF32:
      return DType::kF32;
    case Element::kI32:
      return DType::kI32;
  }
  return compute_dtype;
}

absl::string_view LayerKindName(LayerKind kind) {
  switch (kind) {
    case LayerKind::kTrainable:
      return "trainable";
    case LayerKind::kFrozen:
      return "frozen";
    case LayerKind::kFrozenWithGradient:
      return "frozen_with_gradient";
  }
  return "unknown";
}

InitRule InitRule::FanIn(int64_t fan_in) {
  return {Kind::kUniform, static_cast<float>(1.0 / std::sqrt(static_cast<double>(fan_in)))};
}

int64_t WorkContext::read_bytes() const {
  return std::accumulate(input_bytes.begin(), input_bytes.end(), int64_t{0});
}

int64_t WorkContext::gradient_bytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < input_bytes.size(); ++i) {
    if (WantsInputGrad(static_cast<int>(i))) bytes += input_bytes[i];
  }
  return bytes;
}

NodeWork Node::Work(const WorkContext& context) const {
  return {{roofline::ElementwiseWork(context.read_bytes(), context.output_bytes,
                                     context.gradient_bytes(), /*rereads=*/false)}};
}

ValueId Program::InputNamed(absl::string_view name) const {
  for (ValueId id : inputs_) {
    if (value(id).name == name) return id;
  }
  DPIPE_CHECK(false) << "program " << name_ << " has no input '" << std::string(name) << "'";
  return ValueId();
}

ValueId Program::OutputNamed(absl::string_view name) const {
  for (ValueId id : outputs_) {
    if (value(id).name == name) return id;
  }
  DPIPE_CHECK(false) << "program " << name_ << " has no output '" << std::string(name) << "'";
  return ValueId();
}

int Program::FindLayer(absl::string_view name) const {
  for (int i = 0; i < num_layers(); ++i) {
    if (layers_[i].name == name) return i;
  }
  return -1;
}

std::vector<ValueId> Program::InputsReadBy(LayerRange range) const {
  std::vector<ValueId> result;
  for (ValueId id : inputs_) {
    for (NodeId use : value(id).uses) {
      if (!range.Contains(node(use).layer)) continue;
      result.push_back(id);
      break;
    }
  }
  return result;
}

std::vector<ValueId> Program::OutputsOf(LayerRange range) const {
  std::vector<ValueId> result;
  for (ValueId id : outputs_) {
    if (range.Contains(value(id).layer)) result.push_back(id);
  }
  return result;
}

std::pair<int, int> Program::ParameterRange(LayerRange range) const {
  if (range.empty()) return {0, 0};
  return {layers_[range.begin].begin_parameter, layers_[range.end - 1].end_parameter};
}

int64_t Program::ParameterCount(LayerRange range) const {
  const auto [begin, end] = ParameterRange(range);
  int64_t count = 0;
  for (int i = begin; i < end; ++i) count += parameters_[i].shape.num_elements();
  return count;
}

int64_t Program::TrainableParameterCount(LayerRange range) const {
  const auto [begin, end] = ParameterRange(range);
  int64_t count = 0;
  for (int i = begin; i < end; ++i) {
    if (parameters_[i].trainable) count += parameters_[i].shape.num_elements();
  }
  return count;
}

void Program::StoreFrozen(ops::WeightStorage storage) {
  std::vector<bool> stays(parameters_.size(), false);
  for (const NodeInfo& node : nodes_) {
    for (size_t i = 0; i < node.parameters.size(); ++i) {
      if (!node.node->DecodesWeight(static_cast<int>(i))) stays[node.parameters[i].value()] = true;
    }
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].trainable && !stays[i]) parameters_[i].storage = storage;
  }
}

int64_t Program::ParameterBytes(LayerRange range) const {
  const auto [begin, end] = ParameterRange(range);
  int64_t bytes = 0;
  for (int i = begin; i < end; ++i) {
    bytes += ops::StoredBytes(parameters_[i].storage, parameters_[i].shape.num_elements());
  }
  return bytes;
}

NodeWork Program::Work(NodeId id) const {
  const NodeInfo& info = node(id);
  WorkContext context;
  for (ValueId input : info.inputs) {
    context.input_bytes.push_back(BytesPerSample(input, DType::kBf16));
  }
  context.output_bytes = BytesPerSample(info.output, DType::kBf16);
  context.input_grad_mask = info.input_grad_mask;
  context.wants_weight_grad = info.wants_weight_grad;
  return info.node->Work(context);
}

int64_t Program::MultiplyAdds(LayerRange range) const {
  if (range.empty()) return 0;
  int64_t sum = 0;
  for (int i = layers_[range.begin].begin_node; i < layers_[range.end - 1].end_node; ++i) {
    for (const roofline::OpWork& op : Work(NodeId(i)).ops) sum += op.forward.macs;
  }
  return sum;
}

int64_t Program::BytesPerSample(ValueId id, DType compute_dtype) const {
  const ValueType& type = value(id).type;
  return type.shape.num_elements() * SizeOf(ResolveElement(type.element, compute_dtype));
}

Shape Program::BatchShape(ValueId id, int64_t batch) const {
  std::vector<int64_t> dims = {batch};
  for (int64_t d : value(id).type.shape.dims()) dims.push_back(d);
  return Shape(dims);
}

std::string Program::Summary() const {
  std::string text = absl::StrFormat(
      "%s: %d layers, %d nodes, %d parameters of %d elements, %.2f G multiply-adds\n", name_,
      num_layers(), nodes_.size(), num_parameters(), ParameterCount(all_layers()),
      MultiplyAdds(all_layers()) * 1e-9);
  for (int i = 0; i < num_layers(); ++i) {
    const LayerRange one{i, i + 1};
    int64_t live_bytes = 0;
    for (ValueId id : LiveAt(i + 1)) live_bytes += BytesPerSample(id, DType::kF32);
    absl::StrAppendFormat(
        &text, "%4d %-52s %-20s %11d parameters %9.3f G multiply-adds, live after: %d of %s\n", i,
        layers_[i].name, std::string(LayerKindName(layers_[i].kind)), ParameterCount(one),
        MultiplyAdds(one) * 1e-9, LiveAt(i + 1).size(), FormatBytes(live_bytes));
  }
  return text;
}

}  // namespace dpipe::nn

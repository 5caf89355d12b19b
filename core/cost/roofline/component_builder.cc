#include "core/cost/roofline/component_builder.h"

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe::roofline {
namespace {

constexpr int64_t kActivationBytes = 2;               // bf16
constexpr int64_t kMasterBytes = 4;                   // fp32
constexpr int64_t kGradientMoves = 2 * kMasterBytes;  // a gradient is read, accumulated and written

std::vector<int64_t> WithChannels(std::vector<int64_t> dims, int64_t channels) {
  dims.back() = channels;
  return dims;
}

}  // namespace

int64_t ForwardMacs(const ComponentWork& component) {
  int64_t macs = 0;
  for (const auto& layer : component.ops) {
    for (const OpWork& op : layer) macs += op.forward.macs;
  }
  return macs;
}

int64_t ParameterCount(const ComponentWork& component) {
  int64_t bytes = 0;
  for (const LayerProfile& layer : component.profile.layers()) bytes += layer.parameter_bytes();
  return bytes / kMasterBytes;
}

int64_t TrainableCount(const ComponentWork& component) {
  int64_t bytes = 0;
  for (const LayerProfile& layer : component.profile.layers()) {
    bytes += layer.trainable_parameter_bytes();
  }
  return bytes / kMasterBytes;
}

int64_t SavedBytesPerSample(const ComponentWork& component) {
  int64_t bytes = 0;
  for (const LayerProfile& layer : component.profile.layers()) {
    bytes += layer.saved_bytes_per_sample();
  }
  return bytes;
}

int64_t ComponentBuilder::Value::positions() const {
  int64_t count = 1;
  for (size_t i = 0; i + 1 < dims.size(); ++i) count *= dims[i];
  return count;
}

ComponentBuilder::ComponentBuilder(const std::string& name, bool is_backbone)
    : name_(name), is_backbone_(is_backbone) {}

ComponentBuilder::Value ComponentBuilder::NewValue(const std::string& name,
                                                   const std::vector<int64_t>& dims,
                                                   int element_bytes) {
  Value value;
  value.id = static_cast<int>(values_.size());
  value.dims = dims;
  ValueState state;
  state.name = name;
  state.layer = static_cast<int>(layers_.size()) - 1;
  state.bytes = (dims.empty() ? 1 : value.elements()) * element_bytes;
  values_.push_back(state);
  return value;
}

ComponentBuilder::Value ComponentBuilder::Input(const std::string& name,
                                                const std::vector<int64_t>& dims,
                                                int element_bytes) {
  const Value value = NewValue(name, dims, element_bytes);
  values_.back().layer = -1;
  return value;
}

ComponentBuilder::Value ComponentBuilder::InputFrom(const std::string& name,
                                                    const std::vector<int64_t>& dims,
                                                    int element_bytes, const std::string& component,
                                                    const std::string& output) {
  const Value value = Input(name, dims, element_bytes);
  values_.back().source_component = component;
  values_.back().source_value = output;
  return value;
}

void ComponentBuilder::BeginLayer(const std::string& name, LayerKind kind) {
  LayerState layer;
  layer.name = name;
  layer.kind = kind;
  layers_.push_back(layer);
}

ComponentBuilder::Value ComponentBuilder::Output(const std::vector<Value>& inputs,
                                                 const std::vector<int64_t>& dims,
                                                 int64_t parameters, const char* what,
                                                 int element_bytes) {
  DPIPE_CHECK(!layers_.empty()) << what << " before any layer of " << name_;
  const int layer = static_cast<int>(layers_.size()) - 1;
  layers_.back().parameters += parameters;
  bool has_gradient = parameters > 0 && Trainable();
  for (const Value& input : inputs) {
    ValueState& state = values_[input.id];
    has_gradient |= state.has_gradient;
    if (state.layer != layer) state.consumers.insert(layer);
  }
  const Value value = NewValue(absl::StrCat(layers_.back().name, "/", what, "_", values_.size()),
                               dims, element_bytes);
  values_.back().has_gradient = has_gradient;
  return value;
}

ComponentBuilder::Value ComponentBuilder::Product(OpClass op_class, const Value& x,
                                                  const std::vector<int64_t>& dims, int64_t macs,
                                                  int64_t weights, int64_t biases) {
  const Value y =
      Output({x}, dims, weights + biases, op_class == OpClass::kConvolution ? "conv" : "linear");
  OpWork op;
  op.op_class = op_class;
  const int64_t moved = Bytes(x) + Bytes(y);
  op.forward = {macs, moved, weights * kActivationBytes, 1};
  if (HasGradient(x)) op.input_grad = {macs, moved, weights * kActivationBytes, 1};
  if (Trainable()) {
    op.weight_grad = {macs, moved + (biases > 0 ? Bytes(y) : 0), weights * kGradientMoves, 1};
    Save(x);
  }
  AddOp(op);
  return y;
}

ComponentBuilder::Value ComponentBuilder::Conv(const Value& x, int64_t out, int kernel,
                                               int stride) {
  DPIPE_CHECK(x.dims.size() == 3 && x.dims[0] % stride == 0 && x.dims[1] % stride == 0);
  const std::vector<int64_t> dims{x.dims[0] / stride, x.dims[1] / stride, out};
  const int64_t weights = x.channels() * out * kernel * kernel;
  return Product(OpClass::kConvolution, x, dims, dims[0] * dims[1] * weights, weights, out);
}

ComponentBuilder::Value ComponentBuilder::Linear(const Value& x, int64_t out, bool bias) {
  const int64_t weights = x.channels() * out;
  return Product(OpClass::kMatmul, x, WithChannels(x.dims, out), x.positions() * weights, weights,
                 bias ? out : 0);
}

ComponentBuilder::Value ComponentBuilder::Norm(const Value& x, int64_t parameters) {
  const Value y = Output({x}, x.dims, parameters, "norm");
  const int64_t size = Bytes(x);
  OpWork op;
  op.forward = {0, 3 * size, 0, 1};  // read for the moments, read again, write
  // x and dy are read for the sums and again for dx, which is written.
  if (HasGradient(x)) op.input_grad = {0, 5 * size, 0, 1};
  const bool own_gradient = Trainable() && parameters > 0;
  if (own_gradient && !HasGradient(x))
    op.weight_grad = {0, 2 * size, 0, 1};  // else in the same
                                           // pass
  if (own_gradient || HasGradient(x)) Save(x);
  AddOp(op);
  return y;
}

ComponentBuilder::Value ComponentBuilder::GroupNorm(const Value& x) {
  return Norm(x, 2 * x.channels());
}
ComponentBuilder::Value ComponentBuilder::LayerNorm(const Value& x) {
  return Norm(x, 2 * x.channels());
}
ComponentBuilder::Value ComponentBuilder::RmsNorm(const Value& x) { return Norm(x, x.channels()); }
ComponentBuilder::Value ComponentBuilder::HeadNorm(const Value& x, int64_t head_size) {
  return Norm(x, head_size);
}
ComponentBuilder::Value ComponentBuilder::PlainNorm(const Value& x) { return Norm(x, 0); }

ComponentBuilder::Value ComponentBuilder::Attention(const Value& q, const Value& k, const Value& v,
                                                    int64_t head_size) {
  const Value y = Output({q, k, v}, q.dims, 0, "attention");
  const int64_t product = q.positions() * k.positions() * q.channels();
  const int64_t moved = Bytes(q) + Bytes(k) + Bytes(v) + Bytes(y);
  OpWork op;
  op.op_class = OpClass::kAttention;
  op.head_size = head_size;
  op.forward = {2 * product, moved, 0, 1};
  const bool to_context = HasGradient(k) || HasGradient(v);
  if (to_context || HasGradient(q)) {
    // q, k, v, y and dy are read; the required gradients are written.
    const int64_t written = Bytes(q) + (to_context ? Bytes(k) + Bytes(v) : 0);
    op.input_grad = {(to_context ? 5 : 3) * product, moved + Bytes(y) + written, 0, 2};
    for (const Value& kept : {q, k, v, y}) Save(kept);
  }
  AddOp(op);
  return y;
}

ComponentBuilder::Value ComponentBuilder::Pointwise(const std::vector<Value>& inputs,
                                                    const std::vector<int64_t>& dims,
                                                    const char* what, bool saves_inputs) {
  const Value y = Output(inputs, dims, 0, what);
  int64_t read = 0, gradients = 0;
  for (const Value& input : inputs) {
    read += Bytes(input);
    if (HasGradient(input)) gradients += Bytes(input);
  }
  OpWork op;
  op.forward = {0, read + Bytes(y), 0, 1};
  if (gradients > 0) {
    op.input_grad = {0, (saves_inputs ? read : 0) + Bytes(y) + gradients, 0, 1};
    if (saves_inputs) {
      for (const Value& input : inputs) Save(input);
    }
  }
  AddOp(op);
  return y;
}

ComponentBuilder::Value ComponentBuilder::Activation(const Value& x) {
  return Pointwise({x}, x.dims, "activation", /*saves_inputs=*/true);
}

ComponentBuilder::Value ComponentBuilder::Gated(const Value& x) {
  return Pointwise({x}, WithChannels(x.dims, x.channels() / 2), "gated", /*saves_inputs=*/true);
}

ComponentBuilder::Value ComponentBuilder::Add(const Value& a, const Value& b) {
  return Pointwise({a, b}, a.dims, "sum", /*saves_inputs=*/false);
}

ComponentBuilder::Value ComponentBuilder::Modulate(const Value& x, const Value& by, bool shift) {
  DPIPE_CHECK_EQ(by.channels(), (shift ? 2 : 1) * x.channels());
  return Pointwise({x, by}, x.dims, "modulated", /*saves_inputs=*/true);
}

ComponentBuilder::Value ComponentBuilder::Concat(const Value& a, const Value& b) {
  return Pointwise({a, b}, WithChannels(a.dims, a.channels() + b.channels()), "concat",
                   /*saves_inputs=*/false);
}

ComponentBuilder::Value ComponentBuilder::ConcatTokens(const Value& a, const Value& b) {
  return Pointwise({a, b}, {a.positions() + b.positions(), a.channels()}, "concat",
                   /*saves_inputs=*/false);
}

ComponentBuilder::Value ComponentBuilder::Slice(const Value& x, const std::vector<int64_t>& dims) {
  const Value y = Output({x}, dims, 0, "slice");
  values_.back().view_of = x.id;
  return y;
}

ComponentBuilder::Value ComponentBuilder::Upsample2x(const Value& x) {
  return Pointwise({x}, {2 * x.dims[0], 2 * x.dims[1], x.channels()}, "upsampled",
                   /*saves_inputs=*/false);
}

ComponentBuilder::Value ComponentBuilder::AveragePool2x(const Value& x) {
  return Pointwise({x}, {x.dims[0] / 2, x.dims[1] / 2, x.channels()}, "pooled",
                   /*saves_inputs=*/false);
}

ComponentBuilder::Value ComponentBuilder::Embedding(const Value& ids, int64_t vocabulary,
                                                    int64_t positions, int64_t width) {
  const int64_t length = ids.dims.empty() ? 1 : ids.dims[0];
  const std::vector<int64_t> dims =
      ids.dims.empty() ? std::vector<int64_t>{width} : std::vector<int64_t>{length, width};
  const Value y = Output({ids}, dims, (vocabulary + positions) * width, "embedding");
  OpWork op;
  op.forward = {0, 2 * Bytes(y), 0, 1};
  if (Trainable()) op.weight_grad = {0, 2 * Bytes(y), 0, 1};
  AddOp(op);
  return y;
}

ComponentBuilder::Value ComponentBuilder::Elementwise(const std::vector<Value>& inputs,
                                                      const std::vector<int64_t>& dims,
                                                      int element_bytes) {
  const Value y = Output(inputs, dims, 0, "elementwise", element_bytes);
  OpWork op;
  op.forward = {0, Bytes(y), 0, 1};
  for (const Value& input : inputs) op.forward.bytes += Bytes(input);
  AddOp(op);
  return y;
}

ComponentBuilder::Value ComponentBuilder::Loss(const Value& prediction,
                                               const std::vector<Value>& others) {
  std::vector<Value> inputs{prediction};
  inputs.insert(inputs.end(), others.begin(), others.end());
  const Value y = Output(inputs, {}, 0, "loss", kMasterBytes);
  int64_t read = 0;
  for (const Value& input : inputs) read += Bytes(input);
  OpWork op;
  op.forward = {0, read, 0, 2};
  op.input_grad = {0, read + Bytes(prediction), 0, 1};
  for (const Value& input : inputs) Save(input);
  AddOp(op);
  return y;
}

void ComponentBuilder::MarkOutput(const Value& value, const std::string& name, int element_bytes) {
  ValueState& state = values_[value.id];
  state.name = name;
  state.is_output = true;
  state.bytes = (value.dims.empty() ? 1 : value.elements()) * element_bytes;
}

ComponentWork ComponentBuilder::Build() {
  ComponentWork work;
  work.profile.set_name(name_);
  work.profile.set_is_backbone(is_backbone_);
  std::vector<int64_t> local_bytes(layers_.size(), 0);
  for (const ValueState& state : values_) {
    if (state.consumers.empty() && !state.is_output) {
      if (state.layer >= 0 && state.view_of < 0) local_bytes[state.layer] += state.bytes;
      continue;  // used only within one layer
    }
    ValueProfile* value = work.profile.add_values();
    value->set_name(state.name);
    value->set_bytes_per_sample(state.bytes);
    value->set_producer_layer(state.layer);
    for (int consumer : state.consumers) value->add_consumer_layers(consumer);
    value->set_has_gradient(state.has_gradient);
    value->set_is_output(state.is_output);
    value->set_source_component(state.source_component);
    value->set_source_value(state.source_value);
  }
  for (size_t l = 0; l < layers_.size(); ++l) {
    LayerProfile* layer = work.profile.add_layers();
    layer->set_name(layers_[l].name);
    layer->set_kind(layers_[l].kind);
    layer->set_parameter_bytes(layers_[l].parameters * kMasterBytes);
    if (layers_[l].kind == TRAINABLE) {
      layer->set_trainable_parameter_bytes(layer->parameter_bytes());
    }
    int64_t saved = 0;
    for (int value : layers_[l].saved) {
      const int viewed = values_[value].view_of;
      if (viewed < 0 || layers_[l].saved.count(viewed) == 0) saved += values_[value].bytes;
    }
    layer->set_saved_bytes_per_sample(saved);
    layer->set_workspace_bytes_per_sample(local_bytes[l]);
    work.ops.push_back(layers_[l].ops);
  }
  return work;
}

}  // namespace dpipe::roofline

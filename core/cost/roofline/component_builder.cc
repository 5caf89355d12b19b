#include "core/cost/roofline/component_builder.h"

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe::roofline {
namespace {

// Channels per head. Any other multiple of 64 takes as long (PassNs).
constexpr int64_t kHeadSize = 64;

std::vector<int64_t> WithChannels(std::vector<int64_t> dims, int64_t channels) {
  dims.back() = channels;
  return dims;
}

}  // namespace

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
  AddOp(ProductWork({op_class, macs, Bytes(x), Bytes(y), weights, biases > 0},
                    {HasGradient(x), Trainable()}));
  if (Trainable()) Save(x);
  return y;
}

ComponentBuilder::Value ComponentBuilder::Conv(const Value& x, int64_t out, int stride) {
  DPIPE_CHECK(x.dims.size() == 3 && x.dims[0] % stride == 0 && x.dims[1] % stride == 0);
  const std::vector<int64_t> dims{x.dims[0] / stride, x.dims[1] / stride, out};
  const int64_t weights = x.channels() * out * 3 * 3;
  return Product(OpClass::kConvolution, x, dims, dims[0] * dims[1] * weights, weights, out);
}

ComponentBuilder::Value ComponentBuilder::Linear(const Value& x, int64_t out, bool bias) {
  const int64_t weights = x.channels() * out;
  return Product(OpClass::kMatmul, x, WithChannels(x.dims, out), x.positions() * weights, weights,
                 bias ? out : 0);
}

ComponentBuilder::Value ComponentBuilder::Norm(const Value& x, int64_t parameters) {
  const Value y = Output({x}, x.dims, parameters, "norm");
  const bool own_gradient = Trainable() && parameters > 0;
  AddOp(NormWork(Bytes(x), {HasGradient(x), own_gradient}));
  if (own_gradient || HasGradient(x)) Save(x);
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

ComponentBuilder::Value ComponentBuilder::Attention(const Value& q, const Value& k,
                                                    const Value& v) {
  const Value y = Output({q, k, v}, q.dims, 0, "attention");
  const bool to_context = HasGradient(k) || HasGradient(v);
  AddOp(AttentionWork(
      {q.positions(), k.positions(), q.channels(), kHeadSize, Bytes(q), Bytes(k) + Bytes(v)},
      HasGradient(q), to_context));
  if (to_context || HasGradient(q)) {
    for (const Value& kept : {q, k, v, y}) Save(kept);
  }
  return y;
}

ComponentBuilder::Value ComponentBuilder::ProjectedAttention(const Value& x, const Value& context,
                                                             bool qkv_bias) {
  const int64_t width = x.channels();
  const Value q = Linear(x, width, qkv_bias);
  const Value k = Linear(context, width, qkv_bias);
  const Value v = Linear(context, width, qkv_bias);
  return Linear(Attention(q, k, v), width);
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
  AddOp(ElementwiseWork(read, Bytes(y), gradients, saves_inputs));
  if (gradients > 0 && saves_inputs) {
    for (const Value& input : inputs) Save(input);
  }
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

ComponentBuilder::Value ComponentBuilder::Embedding(const Value& ids, int64_t vocabulary,
                                                    int64_t positions, int64_t width) {
  const int64_t length = ids.dims.empty() ? 1 : ids.dims[0];
  const std::vector<int64_t> dims =
      ids.dims.empty() ? std::vector<int64_t>{width} : std::vector<int64_t>{length, width};
  const Value y = Output({ids}, dims, (vocabulary + positions) * width, "embedding");
  AddOp(LookupWork(Bytes(y), Trainable()));
  return y;
}

ComponentBuilder::Value ComponentBuilder::Elementwise(const std::vector<Value>& inputs,
                                                      const std::vector<int64_t>& dims,
                                                      int element_bytes) {
  const Value y = Output(inputs, dims, 0, "elementwise", element_bytes);
  int64_t read = 0;
  for (const Value& input : inputs) read += Bytes(input);
  AddOp(ElementwiseWork(read, Bytes(y), /*gradient_bytes=*/0, /*rereads=*/false));
  return y;
}

ComponentBuilder::Value ComponentBuilder::Loss(const Value& prediction,
                                               const std::vector<Value>& others) {
  std::vector<Value> inputs{prediction};
  inputs.insert(inputs.end(), others.begin(), others.end());
  const Value y = Output(inputs, {}, 0, "loss", kMasterBytes);
  int64_t read = 0;
  for (const Value& input : inputs) read += Bytes(input);
  AddOp(LossWork(read, read, Bytes(prediction)));
  for (const Value& input : inputs) Save(input);
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

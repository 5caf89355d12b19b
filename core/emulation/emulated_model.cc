#include "core/emulation/emulated_model.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/philox.h"
#include "core/nn/execution.h"
#include "core/nn/program_builder.h"

namespace dpipe {

namespace {

double Mean(const Tensor& tensor) {
  double sum = 0;
  for (float x : tensor.span<float>()) sum += x;
  return sum / static_cast<double>(tensor.num_elements());
}

}  // namespace

// Saves dy/dt, by sample.
absl::StatusOr<Tensor> EmulatedNode::Forward(const nn::NodeContext& context,
                                             absl::Span<const Tensor> inputs,
                                             nn::SavedTensors* saved) const {
  const Tensor y = Tensor::Empty(inputs[0].device(), inputs[0].shape(), DType::kF32);
  const Tensor slope = Tensor::Empty(inputs[0].device(), inputs[0].shape(), DType::kF32);
  const double bias = context.weights.empty() ? 0 : Mean(context.weights[0]->master());
  for (int64_t b = 0; b < y.num_elements(); ++b) {
    double sum = 0;
    for (const Tensor& input : inputs) sum += input.data<float>()[b];
    const double t = sum / static_cast<double>(inputs.size()) + bias;
    y.data<float>()[b] = static_cast<float>(0.9 * t + 0.1 * std::sin(t));
    slope.data<float>()[b] = static_cast<float>(0.9 + 0.1 * std::cos(t));
  }
  if (saved != nullptr) {
    // The second tensor's size is the number of inputs.
    saved->assign(
        {slope, Tensor::Empty(slope.device(), {static_cast<int64_t>(inputs.size())}, DType::kF32)});
  }
  return y;
}

// Leaves dL/dt for the parameter.
absl::StatusOr<std::vector<Tensor>> EmulatedNode::InputGrad(const nn::NodeContext& context,
                                                            nn::SavedTensors* saved,
                                                            const Tensor& output_grad) const {
  const Tensor slope = (*saved)[0];
  const int64_t num_inputs = (*saved)[1].num_elements();
  const Tensor grad = Tensor::Empty(slope.device(), slope.shape(), DType::kF32);
  for (int64_t b = 0; b < grad.num_elements(); ++b) {
    grad.data<float>()[b] = output_grad.data<float>()[b] * slope.data<float>()[b];
  }
  std::vector<Tensor> input_grads(num_inputs);
  for (int64_t i = 0; i < num_inputs; ++i) {
    if (!context.WantsInputGrad(static_cast<int>(i))) continue;
    input_grads[i] = grad.Clone();
    for (float& g : input_grads[i].span<float>()) g /= static_cast<float>(num_inputs);
  }
  saved->clear();
  if (context.wants_weight_grad) saved->push_back(grad);
  return input_grads;
}

absl::Status EmulatedNode::WeightGrad(const nn::NodeContext& context,
                                      nn::SavedTensors* saved) const {
  double sum = 0;
  for (float g : (*saved)[0].span<float>()) sum += g;
  const absl::Span<float> grad = context.weight_grads[0]->span<float>();
  for (float& g : grad) g += static_cast<float>(sum / static_cast<double>(grad.size()));
  saved->clear();
  return absl::OkStatus();
}

namespace {

// Size of a layer's single parameter: enough to be divided over ranks, and little to send.
constexpr int64_t kParameterSize = 16;
constexpr float kLearningRate = 0.01f;
constexpr size_t kMaxInputs = 32;  // maximum per node
constexpr char kEstimateInput[] = "self_conditioning";
constexpr char kEstimateOutput[] = "self_conditioning_estimate";
constexpr char kLoss[] = "loss";

nn::ValueType Number() { return {Shape(), nn::Element::kF32}; }

class ComponentBuilder {
 public:
  explicit ComponentBuilder(const ComponentProfile& profile)
      : profile_(profile),
        builder_(profile.name()),
        read_(profile.layers_size()),
        made_(profile.layers_size()) {}

  absl::StatusOr<nn::Component> Build() {
    DPIPE_RETURN_IF_ERROR(AddInputs());
    for (int l = 0; l < profile_.layers_size(); ++l) DPIPE_RETURN_IF_ERROR(AddLayer(l));
    nn::Component component{profile_.name(), profile_.is_backbone(), builder_.Build(),
                            std::move(sources_)};
    if (self_conditions()) component.self_conditioning = {kEstimateInput, kEstimateOutput};
    return component;
  }

 private:
  bool self_conditions() const { return profile_.self_conditioning_bytes_per_sample() > 0; }

  // The estimate of a self-conditioned backbone is its only output without a gradient.
  bool IsEstimate(const ValueProfile& value) const {
    return self_conditions() && value.is_output() && !value.has_gradient();
  }

  absl::Status Wrong(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat("component ", profile_.name(), ": ", what));
  }

  absl::Status AddInputs() {
    for (int v = 0; v < profile_.values_size(); ++v) {
      const ValueProfile& value = profile_.values(v);
      for (int layer : value.consumer_layers()) read_[layer].push_back(v);
      if (IsEstimate(value)) continue;  // made by the last layer: AddLayer
      if (value.producer_layer() >= 0) {
        made_[value.producer_layer()].push_back(v);
        if (value.consumer_layers().empty() && !value.is_output()) {
          return Wrong(absl::StrCat("value ", value.name(), " has no readers"));
        }
        continue;
      }
      ids_[v] = builder_.AddInput(value.name(), Number());
      if (value.source_component().empty()) continue;
      sources_[value.name()] = {value.source_component(), value.source_value()};
    }
    if (self_conditions()) estimate_ = builder_.AddInput(kEstimateInput, Number());
    return absl::OkStatus();
  }

  absl::Status AddLayer(int l) {
    const LayerProfile& layer = profile_.layers(l);
    const bool is_last = l + 1 == profile_.layers_size();
    std::vector<ValueId> inputs;
    bool reads_gradient = false;
    for (int v : read_[l]) {
      inputs.push_back(ids_[v]);
      reads_gradient |= has_gradient_.count(v) > 0;
    }
    if (l == 0 && estimate_ != ValueId()) inputs.push_back(estimate_);
    // Inputs that the profile does not mention are drawn.
    if (inputs.empty()) inputs.push_back(builder_.AddInput(layer.name() + ".input", Number()));
    if (inputs.size() > kMaxInputs) {
      return Wrong(absl::StrCat("layer ", layer.name(), " reads ", inputs.size(),
                                " values; it must be at most ", kMaxInputs));
    }
    if (layer.kind() == FROZEN && reads_gradient) {
      return Wrong(
          absl::StrCat("the frozen layer ", layer.name(), " reads a value that has a gradient"));
    }
    const bool adds_loss = is_last && profile_.is_backbone() && !HasOutput();
    BeginLayer(layer, reads_gradient, adds_loss, made_[l]);
    for (int v : made_[l]) DPIPE_RETURN_IF_ERROR(AddValue(v, inputs, reads_gradient));
    if (adds_loss) builder_.MarkOutput(AddNode(inputs, /*has_gradient=*/true), kLoss);
    if (is_last && self_conditions()) {
      builder_.MarkOutput(AddNode(inputs, /*has_gradient=*/false), kEstimateOutput);
    }
    return absl::OkStatus();
  }

  bool HasOutput() const {
    return std::any_of(
        profile_.values().begin(), profile_.values().end(),
        [this](const ValueProfile& value) { return value.is_output() && !IsEstimate(value); });
  }

  // Begins a layer. It gets a parameter if it is trainable, or if the profile has gradients that
  // begin in it.
  void BeginLayer(const LayerProfile& layer, bool reads_gradient, bool adds_loss,
                  const std::vector<int>& made) {
    const bool makes_gradient = adds_loss || std::any_of(made.begin(), made.end(), [this](int v) {
                                  return profile_.values(v).has_gradient();
                                });
    const bool trains = layer.kind() == TRAINABLE ||
                        (layer.kind() == FROZEN_WITH_GRADIENT && makes_gradient && !reads_gradient);
    builder_.BeginLayer(layer.name(), trains ? nn::LayerKind::kTrainable
                                      : layer.kind() == FROZEN
                                          ? nn::LayerKind::kFrozen
                                          : nn::LayerKind::kFrozenWithGradient);
    parameters_.clear();
    // No pass would touch a parameter that receives no gradient.
    if (!trains || !makes_gradient) return;
    parameters_ = {
        builder_.AddParameter(absl::StrCat(profile_.name(), ".", layer.name(), ".weight"),
                              {kParameterSize}, nn::InitRule::Normal(0.1f),
                              /*decay=*/false)};
  }

  ValueId AddNode(const std::vector<ValueId>& inputs, bool has_gradient) {
    return builder_.AddNode(std::make_unique<EmulatedNode>(has_gradient), inputs,
                            has_gradient ? parameters_ : std::vector<nn::ParameterId>());
  }

  absl::Status AddValue(int v, const std::vector<ValueId>& inputs, bool reads_gradient) {
    const ValueProfile& value = profile_.values(v);
    if (value.has_gradient() && !reads_gradient && parameters_.empty()) {
      return Wrong(absl::StrCat("value ", value.name(),
                                " has a gradient, but nothing before it is trainable"));
    }
    ids_[v] = AddNode(inputs, value.has_gradient());
    if (value.has_gradient()) has_gradient_.insert(v);
    if (value.is_output()) builder_.MarkOutput(ids_[v], value.name());
    return absl::OkStatus();
  }

  const ComponentProfile& profile_;
  nn::ProgramBuilder builder_;
  std::vector<std::vector<int>> read_, made_;  // values, by layer
  std::map<int, ValueId> ids_;                 // by value of the profile
  std::set<int> has_gradient_;
  std::map<std::string, nn::InputSource> sources_;
  ValueId estimate_;
  std::vector<nn::ParameterId> parameters_;  // of the current layer
};

uint64_t Hash(const std::string& text) {
  uint64_t hash = 1469598103934665603u;  // FNV-1a
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211u;
  return hash;
}

class GradientDescent : public StepOptimizer {
 public:
  absl::Status Step(int64_t step, bool ends_step, double global_norm,
                    nn::ParameterSet* parameters) override {
    for (nn::ParameterId id : parameters->trainable_ids()) {
      const absl::Span<const float> grad = parameters->grad(id)->span<float>();
      ops::Weight* weight = parameters->mutable_weight(id);
      const absl::Span<float> master = weight->master().span<float>();
      for (size_t i = 0; i < master.size(); ++i) master[i] -= kLearningRate * grad[i];
      weight->MarkUpdated();
    }
    ++num_updates_;
    return absl::OkStatus();
  }
  std::vector<StateTensor> State(absl::string_view kind) override { return {}; }
  int64_t num_updates() const override { return num_updates_; }
  absl::Status StateRestored(int64_t num_updates) override {
    num_updates_ = num_updates;
    return absl::OkStatus();
  }

 private:
  int64_t num_updates_ = 0;
};

}  // namespace

absl::StatusOr<nn::Model> MakeEmulatedModel(const ModelProfile& profile) {
  std::vector<nn::Component> components;
  for (const ComponentProfile& component : profile.components()) {
    DPIPE_ASSIGN_OR_RETURN(nn::Component built, ComponentBuilder(component).Build());
    components.push_back(std::move(built));
  }
  return nn::Model::Create(profile.model(), std::move(components));
}

EmulatedInputs::EmulatedInputs(const nn::Model* model, uint64_t seed) : model_(model), seed_(seed) {
  const std::shared_ptr<Device> device = Device::Cpu();
  for (int c = 0; c < model->num_components(); ++c) {
    const nn::Program& program = model->component(c).program;
    auto set = std::make_unique<nn::ParameterSet>(program, program.all_layers(), device);
    set->InitRandom(seed);
    if (model->component(c).is_backbone) {
      set->Collect(&backbone_);
      set = nullptr;
    }
    frozen_.push_back(set.get());
    frozen_sets_.push_back(std::move(set));
  }
}

absl::StatusOr<Tensor> EmulatedInputs::Load(const std::string& component, const std::string& input,
                                            int64_t step, SampleRange samples,
                                            const std::shared_ptr<Device>& device) {
  const auto& sources = model_->component(model_->FindComponent(component)).sources;
  const auto source = sources.find(input);
  if (source != sources.end()) {
    return Compute(model_->FindComponent(source->second.component), source->second.output, step,
                   samples, device);
  }
  const uint64_t key = seed_ ^ Hash(absl::StrCat(component, "/", input));
  Tensor values = Tensor::Empty(device, {samples.size()}, DType::kF32);
  for (int s = samples.begin; s < samples.end; ++s) {
    RandomStream stream(key, step, s, RandomPurpose::kNoise);
    values.data<float>()[s - samples.begin] = stream.NextNormal();
  }
  return values;
}

absl::StatusOr<Tensor> EmulatedInputs::Compute(int component, const std::string& output,
                                               int64_t step, SampleRange samples,
                                               const std::shared_ptr<Device>& device) {
  const nn::Program& program = model_->component(component).program;
  nn::ValueMap values;
  for (ValueId id : program.inputs()) {
    DPIPE_ASSIGN_OR_RETURN(values[id], Load(model_->component(component).name,
                                            program.value(id).name, step, samples, device));
  }
  DPIPE_RETURN_IF_ERROR(nn::Forward(program, program.all_layers(), *frozen_[component], {}, &values,
                                    /*state=*/nullptr));
  return values[program.OutputNamed(output)];
}

StepOptimizerFactory EmulatedOptimizer() {
  return [](const nn::ParameterSet&) { return std::make_unique<GradientDescent>(); };
}

}  // namespace dpipe

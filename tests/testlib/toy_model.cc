#include "tests/testlib/toy_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/philox.h"
#include "core/nn/blocks/lora.h"
#include "core/nn/execution.h"
#include "core/nn/nodes/activation_nodes.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "core/ops/diffusion/diffusion.h"

namespace dpipe::testlib {
namespace {

using nn::Element;
using nn::LayerKind;
using nn::ProgramBuilder;

// Mean squared error between a prediction and an fp32 target.
class LossNode : public nn::Node {
 public:
  absl::string_view kind() const override { return "loss"; }
  nn::ValueType output() const override { return {Shape(), Element::kF32}; }

  absl::StatusOr<Tensor> Forward(const nn::NodeContext& context, absl::Span<const Tensor> inputs,
                                 nn::SavedTensors* saved) const override {
    if (saved != nullptr) saved->assign(inputs.begin(), inputs.end());
    return ops::MseLossForward(inputs[0], inputs[1], Tensor());
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const nn::NodeContext& context,
                                                nn::SavedTensors* saved,
                                                const Tensor& output_grad) const override {
    std::vector<Tensor> grads(2);
    DPIPE_ASSIGN_OR_RETURN(grads[0],
                           ops::MseLossInputGrad((*saved)[0], (*saved)[1], Tensor(), output_grad));
    saved->clear();
    return grads;
  }
};

nn::LinearSpec Out(int64_t width) {
  nn::LinearSpec spec;
  spec.out = width;
  return spec;
}

nn::Program FrozenProgram(const std::string& name, const std::string& input,
                          const std::string& output, const ToyModelOptions& options) {
  ProgramBuilder builder(name);
  const ValueId in = builder.AddInput(input, {Shape{options.width}, Element::kCompute});
  ValueId x = in;
  for (int i = 0; i < options.num_frozen_layers; ++i) {
    builder.BeginLayer(absl::StrCat(name, ".", i), LayerKind::kFrozen);
    x = AddLinear(&builder, absl::StrCat(name, ".", i), x, Out(options.width));
    x = AddActivation(&builder, x, ops::Activation::kSilu);
    if (options.frozen_skip && i + 1 == options.num_frozen_layers) x = AddSum(&builder, x, in);
  }
  builder.MarkOutput(x, output);
  return builder.Build();
}

// A block of three layers that reads the context, and the skip if there is one, and adds to x.
ValueId AddBlock(ProgramBuilder* builder, const std::string& name, ValueId x, ValueId context,
                 ValueId skip, int64_t width, int lora_rank) {
  nn::LoraSpec lora;
  lora.rank = lora_rank;
  builder->FreezeParameters(lora_rank > 0);
  builder->BeginLayer(name + ".up", LayerKind::kTrainable);
  if (skip != ValueId()) {
    x = AddLinear(builder, name + ".join", AddConcat(builder, {x, skip}), Out(width));
  }
  const ValueId residual = x;
  ValueId h = AddLayerNorm(builder, name + ".norm", x, ops::LayerNormParams());
  builder->FreezeParameters(false);
  h = AddLinearWithLora(builder, name + ".up", h, Out(2 * width), lora);
  builder->FreezeParameters(lora_rank > 0);
  builder->BeginLayer(name + ".mix", LayerKind::kTrainable);
  const ValueId c = AddLinear(builder, name + ".context", context, Out(2 * width));
  h = AddActivation(builder, AddSum(builder, h, c), ops::Activation::kSilu);
  builder->BeginLayer(name + ".down", LayerKind::kTrainable);
  builder->FreezeParameters(false);
  h = AddLinearWithLora(builder, name + ".down", h, Out(width), lora);
  return AddSum(builder, residual, h);
}

// `prefix` distinguishes the layers and parameters of two backbones; `code_name` is the first
// input.
nn::Program BackboneProgram(const ToyModelOptions& options, const std::string& prefix,
                            const std::string& code_name, bool self_conditioning) {
  ProgramBuilder builder(prefix + "backbone");
  const nn::ValueType vector{Shape{options.width}, Element::kCompute};
  const ValueId code = builder.AddInput(code_name, vector);
  const ValueId context = builder.AddInput("context", vector);
  const ValueId noise = builder.AddInput("noise", {Shape{options.width}, Element::kF32});
  builder.BeginLayer(prefix + "in", LayerKind::kTrainable);
  ValueId x = AddSum(&builder, code, AddCast(&builder, noise, Element::kCompute));
  if (self_conditioning) x = AddSum(&builder, x, builder.AddInput("estimate", vector));
  builder.FreezeParameters(options.lora_rank > 0);
  x = AddLinear(&builder, prefix + "in", x, Out(options.width));
  builder.FreezeParameters(false);
  const ValueId skip = x;  // read again by the last layer
  std::vector<ValueId> block_outputs;
  for (int i = 0; i < options.num_blocks; ++i) {
    const int partner = options.num_blocks - 1 - i;
    const ValueId block_skip = options.u_shaped && partner < i ? block_outputs[partner] : ValueId();
    x = AddBlock(&builder, absl::StrCat(prefix, "block.", i), x, context, block_skip, options.width,
                 options.lora_rank);
    block_outputs.push_back(x);
  }
  builder.BeginLayer(prefix + "out", LayerKind::kTrainable);
  x = AddLinear(&builder, prefix + "out", AddConcat(&builder, {x, skip}), Out(options.width));
  if (self_conditioning) builder.MarkOutput(AddDetach(&builder, x), "prediction");
  builder.BeginLayer(prefix + "loss", LayerKind::kTrainable);
  builder.MarkOutput(builder.AddNode(std::make_unique<LossNode>(), {x, noise}), "loss");
  return builder.Build();
}

}  // namespace

nn::Model MakeToyModel(const ToyModelOptions& options) {
  std::vector<nn::Component> components;
  components.push_back({"encoder", false, FrozenProgram("encoder", "pixels", "code", options), {}});
  components.push_back({"text", false, FrozenProgram("text", "words", "context", options), {}});
  components.push_back({"backbone",
                        true,
                        BackboneProgram(options, "", "code", options.self_conditioning),
                        {{"code", {"encoder", "code"}}, {"context", {"text", "context"}}}});
  if (options.self_conditioning) components.back().self_conditioning = {"estimate", "prediction"};
  if (options.second_backbone) {
    components.push_back({"upscaler",
                          true,
                          BackboneProgram(options, "upscaler.", "lowres", false),
                          {{"context", {"text", "context"}}}});
  }
  auto model = nn::Model::Create("toy", std::move(components));
  DPIPE_CHECK(model.ok()) << model.status();
  return std::move(model).value();
}

ToyParameters MakeToyParameters(const nn::Model& model, uint64_t seed) {
  ToyParameters parameters;
  for (int i = 0; i < model.num_components(); ++i) {
    const nn::Program& program = model.component(i).program;
    auto set = std::make_unique<nn::ParameterSet>(program, program.all_layers(), Device::Cpu());
    set->InitRandom(seed);
    if (model.component(i).is_backbone) {
      set->Collect(&parameters.backbone);
      set = nullptr;
    }
    parameters.frozen_pointers.push_back(set.get());
    parameters.frozen.push_back(std::move(set));
  }
  return parameters;
}

absl::StatusOr<Tensor> ToyInputs::Load(const std::string& component, const std::string& input,
                                       int64_t step, SampleRange samples,
                                       const std::shared_ptr<Device>& device) {
  const nn::Program& program = model_->component(model_->FindComponent(component)).program;
  const ValueId id = program.InputNamed(input);
  Tensor values = Tensor::Empty(device, program.BatchShape(id, samples.size()), DType::kF32);
  const int64_t per_sample = values.num_elements() / samples.size();
  // The first letter distinguishes the inputs.
  const uint64_t key = seed_ * 256 + static_cast<unsigned char>(input[0]);
  for (int s = samples.begin; s < samples.end; ++s) {
    RandomStream stream(key, step, s, RandomPurpose::kTest);
    float* row = values.data<float>() + (s - samples.begin) * per_sample;
    for (int64_t i = 0; i < per_sample; ++i) row[i] = stream.NextNormal();
  }
  return values.To(nn::ResolveElement(program.value(id).type.element, compute_dtype_));
}

absl::StatusOr<Tensor> CachedToyInputs::Load(const std::string& component, const std::string& input,
                                             int64_t step, SampleRange samples,
                                             const std::shared_ptr<Device>& device) {
  const nn::Component& reader = model_->component(model_->FindComponent(component));
  const auto source = reader.sources.find(input);
  if (source == reader.sources.end()) {
    return inputs_.Load(component, input, step, samples, device);
  }
  std::vector<Tensor> rows;
  for (int sample = samples.begin; sample < samples.end; ++sample) {
    DPIPE_ASSIGN_OR_RETURN(rows.emplace_back(),
                           Compute(model_->FindComponent(source->second.component),
                                   source->second.output, step, sample, device));
  }
  return ConcatBatch(rows);
}

absl::StatusOr<Tensor> CachedToyInputs::Compute(int component, const std::string& output,
                                                int64_t step, int sample,
                                                const std::shared_ptr<Device>& device) {
  const nn::Program& program = model_->component(component).program;
  nn::ValueMap values;
  for (ValueId id : program.inputs()) {
    DPIPE_ASSIGN_OR_RETURN(
        values[id], inputs_.Load(model_->component(component).name, program.value(id).name, step,
                                 {sample, sample + 1}, device));
  }
  nn::RunOptions options;
  options.compute_dtype = compute_dtype_;
  DPIPE_RETURN_IF_ERROR(nn::Forward(program, program.all_layers(),
                                    *parameters_->frozen_pointers[component], options, &values,
                                    /*state=*/nullptr));
  return values[program.OutputNamed(output)];
}

}  // namespace dpipe::testlib

#include "models/mmdit/mmdit_parts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/nn/nodes/activation_nodes.h"
#include "core/nn/nodes/attention_node.h"
#include "core/nn/nodes/embedding_nodes.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/shape_nodes.h"

namespace dpipe::models {
namespace {

constexpr float kNormEps = 1e-6f;          // of all norms
constexpr int kSinusoids = 256;            // of a timestep
constexpr float kGuidanceFactor = 1000;    // embedded like a timestep of 1000
constexpr int64_t kFeedForwardFactor = 4;  // hidden width / width

}  // namespace

std::vector<std::string> DefaultMmditLoraTargets() {
  return {"attn.to_q",
          "attn.to_k",
          "attn.to_v",
          "attn.to_out.0",
          "attn.add_q_proj",
          "attn.add_k_proj",
          "attn.add_v_proj",
          "attn.to_add_out",
          "ff.net.0.proj",
          "ff.net.2",
          "ff_context.net.0.proj",
          "ff_context.net.2"};
}

absl::Status CheckMmditShape(const std::string& model, const MmditShape& shape) {
  if (shape.height > 0 && shape.width > 0 && shape.height % kMmditPatch == 0 &&
      shape.width % kMmditPatch == 0 && shape.context_length > 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      model, ": latents of ", shape.height, " x ", shape.width, " with ", shape.context_length,
      " text tokens; it needs multiples of ", kMmditPatch, " and at least one text token"));
}

nn::LoraSpec WithMmditLoraTargets(nn::LoraSpec lora) {
  if (lora.targets.empty()) {
    lora.targets = DefaultMmditLoraTargets();
  } else if (std::count(lora.targets.begin(), lora.targets.end(), kAllLinear) > 0) {
    lora.targets.clear();
  }
  return lora;
}

void AddMmditConditions(const MmditShape& shape, const MmditInputSizes& sizes,
                        nn::ProgramBuilder* builder, MmditInputs* inputs) {
  inputs->context = builder->AddInput(
      "context", {Shape({shape.context_length, sizes.context_width}), nn::Element::kCompute});
  inputs->pooled =
      builder->AddInput("pooled", {Shape({sizes.pooled_width}), nn::Element::kCompute});
  if (sizes.guidance) {
    inputs->guidance = builder->AddInput("guidance", {Shape(), nn::Element::kF32});
  }
}

MmditInputs AddMmditInputs(const MmditShape& shape, const MmditInputSizes& sizes,
                           nn::ProgramBuilder* builder) {
  MmditInputs inputs;
  inputs.latents = builder->AddInput(
      "noisy_latents", {Shape({shape.height, shape.width, sizes.channels}), nn::Element::kF32});
  inputs.timesteps = builder->AddInput("timesteps", {Shape(), nn::Element::kF32});
  AddMmditConditions(shape, sizes, builder, &inputs);
  return inputs;
}

void MmditParts::BeginLayer(const std::string& name) {
  const bool adapts = options_.lora.rank > 0;
  builder_->BeginLayer(name, adapts ? nn::LayerKind::kTrainable : options_.kind);
  builder_->FreezeParameters(adapts);
}

ValueId MmditParts::AddLinear(const std::string& name, ValueId x, const nn::LinearSpec& spec) {
  const ValueId y = nn::AddLinearWithLora(builder_, name, x, spec, options_.lora);
  builder_->FreezeParameters(options_.lora.rank > 0);
  return y;
}

ValueId MmditParts::AddEmbedder(const std::string& name, ValueId x, std::optional<ValueId> addend) {
  const ValueId h = Project(name + ".linear_1", x);
  nn::LinearSpec second{options_.width()};
  second.addend = addend;
  return AddLinear(name + ".linear_2", nn::AddActivation(builder_, h, ops::Activation::kSilu),
                   second);
}

ValueId MmditParts::AddConditioning(const MmditInputs& inputs) {
  const std::string name = "time_text_embed";
  BeginLayer(name);
  ops::TimeEmbeddingParams params;
  params.dim = kSinusoids;
  ValueId sum = AddEmbedder(name + ".timestep_embedder",
                            nn::AddTimeEmbedding(builder_, inputs.timesteps, params), std::nullopt);
  if (inputs.guidance.has_value()) {
    const ValueId scale = nn::AddScale(builder_, *inputs.guidance, kGuidanceFactor);
    sum = AddEmbedder(name + ".guidance_embedder", nn::AddTimeEmbedding(builder_, scale, params),
                      sum);
  }
  sum = AddEmbedder(name + ".text_embedder", inputs.pooled, sum);
  return nn::AddActivation(builder_, sum, ops::Activation::kSilu);
}

ValueId MmditParts::AddContext(ValueId context) {
  BeginLayer("context_embedder");
  return Project("context_embedder", context);
}

MmditTokens MmditParts::AddJointBlock(const std::string& name, const MmditTokens& tokens,
                                      ValueId conditioning, const JointBlockSpec& spec) {
  const std::string attn = name + ".attn";
  const int64_t image_tokens = builder_->shape(tokens.image)[0];
  const int64_t text_tokens = builder_->shape(tokens.text)[0];
  // Vectors of a modulation: shift, scale and gate of attention; shift, scale and gate of the
  // feed-forward network; with dual attention, shift, scale and gate of the second attention.
  BeginLayer(attn);
  const ValueId of_image =
      AddModulation(name + ".norm1", conditioning, spec.dual_attention ? 9 : 6);
  const ValueId of_text =
      AddModulation(name + ".norm1_context", conditioning, spec.context_pre_only ? 2 : 6);
  const ValueId text_norm = spec.context_pre_only
                                ? nn::AddModulatedLayerNorm(builder_, tokens.text, of_text,
                                                            {kNormEps, /*shift_first=*/false})
                                : AddNorm(tokens.text, of_text, 0);
  const QkvNames image_names = {"to_q", "to_k", "to_v", "norm_q", "norm_k"};
  Qkv image = AddQkv(attn, image_names, AddNorm(tokens.image, of_image, 0));
  Rotate(/*text_tokens=*/0, &image);
  const int heads = static_cast<int>(options_.num_heads);
  MmditTokens result = tokens;
  const Qkv text = AddQkv(
      attn, {"add_q_proj", "add_k_proj", "add_v_proj", "norm_added_q", "norm_added_k"}, text_norm);
  const ValueId y = nn::AddAttention(builder_, nn::AddJoinTokens(builder_, text.q, image.q),
                                     nn::AddJoinTokens(builder_, text.k, image.k),
                                     nn::AddJoinTokens(builder_, text.v, image.v), heads);
  result.image = AddBranch(
      tokens.image, of_image, 2,
      Project(attn + ".to_out.0", nn::AddSliceTokens(builder_, y, text_tokens, image_tokens)));
  if (!spec.context_pre_only) {
    result.text =
        AddBranch(tokens.text, of_text, 2,
                  Project(attn + ".to_add_out", nn::AddSliceTokens(builder_, y, 0, text_tokens)));
  }
  if (spec.dual_attention) {
    BeginLayer(name + ".attn2");
    Qkv own = AddQkv(name + ".attn2", image_names, AddNorm(tokens.image, of_image, 6));
    Rotate(/*text_tokens=*/0, &own);
    const ValueId h = nn::AddAttention(builder_, own.q, own.k, own.v, heads);
    result.image = AddBranch(result.image, of_image, 8, Project(name + ".attn2.to_out.0", h));
  }
  result.image = AddFeedForward(name + ".ff", result.image, of_image, 3);
  if (!spec.context_pre_only) {
    result.text = AddFeedForward(name + ".ff_context", result.text, of_text, 3);
  }
  return result;
}

ValueId MmditParts::AddSingleBlock(const std::string& name, ValueId tokens, int64_t text_tokens,
                                   ValueId conditioning) {
  BeginLayer(name);
  const ValueId modulation = AddModulation(name + ".norm", conditioning, 3);
  const ValueId h = AddNorm(tokens, modulation, 0);
  Qkv qkv = AddQkv(name + ".attn", {"to_q", "to_k", "to_v", "norm_q", "norm_k"}, h);
  Rotate(text_tokens, &qkv);
  const ValueId attended =
      nn::AddAttention(builder_, qkv.q, qkv.k, qkv.v, static_cast<int>(options_.num_heads));
  const ValueId mlp = nn::AddActivation(
      builder_, AddLinear(name + ".proj_mlp", h, {kFeedForwardFactor * options_.width()}),
      ops::Activation::kGeluTanh);
  return AddBranch(tokens, modulation, 2,
                   Project(name + ".proj_out", nn::AddConcat(builder_, {attended, mlp})));
}

ValueId MmditParts::AddOutput(ValueId image, ValueId conditioning, int64_t out) {
  const ValueId modulation = AddModulation("norm_out", conditioning, 2);
  const ValueId h =
      nn::AddModulatedLayerNorm(builder_, image, modulation, {kNormEps, /*shift_first=*/false});
  return AddLinear("proj_out", h, {out});
}

ValueId MmditParts::AddModulation(const std::string& name, ValueId conditioning, int count) {
  nn::LinearSpec spec{count * options_.width()};
  spec.zero_init = true;
  return AddLinear(name + ".linear", conditioning, spec);
}

ValueId MmditParts::Vectors(ValueId modulation, int first, int count) {
  return nn::AddSlice(builder_, modulation, first * options_.width(), count * options_.width());
}

ValueId MmditParts::AddNorm(ValueId x, ValueId modulation, int first) {
  return nn::AddModulatedLayerNorm(builder_, x, Vectors(modulation, first, 2),
                                   {kNormEps, /*shift_first=*/true});
}

ValueId MmditParts::AddBranch(ValueId x, ValueId modulation, int index, ValueId branch) {
  return nn::AddGatedSum(builder_, x, Vectors(modulation, index, 1), branch);
}

ValueId MmditParts::Project(const std::string& name, ValueId x) {
  return AddLinear(name, x, {options_.width()});
}

MmditParts::Qkv MmditParts::AddQkv(const std::string& name, const QkvNames& names, ValueId x) {
  const auto project = [&](const std::string& part) { return Project(name + "." + part, x); };
  const auto normalize = [&](const std::string& norm, ValueId projected) {
    if (!options_.qk_norm) return projected;
    return nn::AddRmsNorm(builder_, name + "." + norm, projected, {kNormEps}, options_.head_size);
  };
  const ValueId q = normalize(names.norm_q, project(names.q));
  const ValueId k = normalize(names.norm_k, project(names.k));
  return {q, k, project(names.v)};
}

void MmditParts::Rotate(int64_t text_tokens, Qkv* qkv) {
  if (!options_.rotary.has_value()) return;
  ops::RotaryParams params = *options_.rotary;
  params.text_tokens = text_tokens;
  qkv->q = nn::AddRotaryEmbedding(builder_, qkv->q, params);
  qkv->k = nn::AddRotaryEmbedding(builder_, qkv->k, params);
}

ValueId MmditParts::AddFeedForward(const std::string& name, ValueId x, ValueId modulation,
                                   int first) {
  BeginLayer(name);
  ValueId h = AddNorm(x, modulation, first);
  h = AddLinear(name + ".net.0.proj", h, {kFeedForwardFactor * options_.width()});
  h = nn::AddActivation(builder_, h, ops::Activation::kGeluTanh);
  return AddBranch(x, modulation, first + 2, Project(name + ".net.2", h));
}

}  // namespace dpipe::models

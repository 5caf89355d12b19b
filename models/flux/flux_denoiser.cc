#include "models/flux/flux_denoiser.h"

#include "models/mmdit/flux_transformer.h"
#include "models/mmdit/original_names.h"

namespace dpipe::models {
namespace {

// The guidance scale of training. It is what diffusers' examples recommend for dev.
constexpr float kTrainingGuidance = 1;

}  // namespace

Sources FluxDenoiser::embeddings() const {
  return {{"context", {"text_encoder_2", "last_hidden_state"}},
          {"pooled", {"text_encoder", "pooler_output"}}};
}

std::vector<std::shared_ptr<const Condition>> FluxDenoiser::conditions() const {
  if (!config_.guidance_embeds) return {};
  return {std::make_shared<GuidanceCondition>(kTrainingGuidance)};
}

absl::Status FluxDenoiser::CheckShape(const MmditShape& shape) const {
  return CheckMmditShape(name(), shape);
}

void FluxDenoiser::AddConditions(const MmditShape& shape, nn::ProgramBuilder* builder,
                                 MmditInputs* inputs) const {
  AddMmditConditions(shape, FluxInputSizes(config_), builder, inputs);
}

ValueId FluxDenoiser::AddTransformer(const MmditShape& shape, nn::LayerKind kind,
                                     const MmditInputs& inputs, nn::ProgramBuilder* builder,
                                     const nn::LoraSpec& lora) const {
  return AddFluxTransformer(config_, shape, kind, inputs, builder, lora);
}

std::vector<KohyaLayer> FluxDenoiser::kohya_layers() const {
  return KohyaLayersOf(FluxOriginalNames(config_));
}

}  // namespace dpipe::models

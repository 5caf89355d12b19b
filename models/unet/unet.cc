#include "models/unet/unet.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/nn/nodes/shape_nodes.h"
#include "core/nn/program_builder.h"

namespace dpipe::models {
namespace {

using nn::LayerKind;

// Embeddings of text and further numbers.
struct Conditions {
  std::vector<ValueId> contexts;
  std::optional<TextTime> text_time;
};

Conditions AddConditionInputs(const UNetConfig& config, const UNetShape& shape,
                              nn::ProgramBuilder* builder) {
  Conditions conditions;
  if (shape.context_widths.empty()) conditions.contexts = {AddContextInput(config, shape, builder)};
  for (const int64_t width : shape.context_widths) {
    conditions.contexts.push_back(
        builder->AddInput(ContextInputName(conditions.contexts.size()),
                          {Shape({shape.context_length, width}), nn::Element::kCompute}));
  }
  conditions.text_time = AddTextTimeInputs(config, builder);
  return conditions;
}

// Returns the context of cross-attention. Called in the first layer.
ValueId JoinContexts(const Conditions& conditions, nn::ProgramBuilder* builder) {
  const std::vector<ValueId>& contexts = conditions.contexts;
  return contexts.size() == 1 ? contexts[0] : nn::AddConcat(builder, contexts);
}

// Adds the layers from the noisy latents to the prediction.
ValueId AddUNet(const UNetConfig& config, LayerKind kind, const nn::LoraSpec& lora, ValueId noisy,
                ValueId timesteps, ValueId context, const std::optional<TextTime>& text_time,
                nn::ProgramBuilder* builder) {
  UNetParts parts(config, kind, /*prefix=*/"", builder, lora);
  const ValueId time = parts.AddTime(timesteps, text_time);
  return parts.AddDecoder(parts.AddEncoder(noisy, time, context), time, context);
}

// Joins the noisy latents with the U-Net's further input, if any.
ValueId AddFurtherChannels(const UNetConfig& config, const UNetShape& shape, ValueId noisy,
                           nn::ProgramBuilder* builder) {
  if (config.self_conditioning()) {
    const Shape image({shape.height, shape.width, config.out_channels});
    const ValueId estimate = builder->AddInput("estimate", {image, nn::Element::kCompute});
    return nn::AddConcat(builder, {noisy, estimate});
  }
  if (config.coordinates()) {
    const Shape places({shape.height, shape.width, 2});
    const ValueId coordinates = builder->AddInput("coordinates", {places, nn::Element::kF32});
    return nn::AddConcat(builder,
                         {noisy, nn::AddCast(builder, coordinates, nn::Element::kCompute)});
  }
  return noisy;
}

}  // namespace

std::string ContextInputName(size_t encoder) {
  return encoder == 0 ? "context" : absl::StrCat("context_", encoder + 1);
}

absl::StatusOr<nn::Program> BuildUNetForTraining(const UNetConfig& config, const UNetShape& shape,
                                                 const diffusion::Objective& objective,
                                                 const nn::LoraSpec& lora) {
  DPIPE_RETURN_IF_ERROR(CheckUNetShape(config, shape));
  if (config.latent_channels() != config.out_channels) {
    return absl::InvalidArgumentError(
        absl::StrCat("unet: ", config.in_channels, " input channels and ", config.out_channels,
                     " output channels; training needs the same number"));
  }
  nn::ProgramBuilder builder("unet");
  const ValueId latents = AddLatentsInput(config, shape, "latents", &builder);
  const ValueId noise = AddLatentsInput(config, shape, "noise", &builder);
  const ValueId timesteps = builder.AddInput("timesteps", {Shape(), objective.timestep_element()});
  const Conditions conditions = AddConditionInputs(config, shape, &builder);
  builder.BeginLayer("add_noise", LayerKind::kFrozen);
  ValueId noisy = objective.AddNoising(&builder, latents, noise, timesteps);
  noisy = AddFurtherChannels(config, shape, noisy, &builder);
  const ValueId context = JoinContexts(conditions, &builder);
  const LayerKind kind = lora.rank > 0 ? LayerKind::kFrozenWithGradient : LayerKind::kTrainable;
  const ValueId prediction =
      AddUNet(config, kind, lora, noisy, timesteps, context, conditions.text_time, &builder);
  if (config.self_conditioning()) {
    builder.MarkOutput(nn::AddDetach(&builder, prediction), "prediction");
  }
  builder.BeginLayer("loss", LayerKind::kTrainable);
  const ValueId loss = objective.AddLoss(&builder, {prediction, latents, noise, timesteps});
  builder.MarkOutput(loss, "loss");
  return builder.Build();
}

absl::StatusOr<nn::Program> BuildUNetForInference(const UNetConfig& config,
                                                  const UNetShape& shape) {
  DPIPE_RETURN_IF_ERROR(CheckUNetShape(config, shape));
  nn::ProgramBuilder builder("unet");
  const ValueId latents = AddLatentsInput(config, shape, "noisy_latents", &builder);
  const ValueId timesteps = builder.AddInput("timesteps", {Shape(), nn::Element::kF32});
  const Conditions conditions = AddConditionInputs(config, shape, &builder);
  builder.BeginLayer("input", LayerKind::kFrozen);
  ValueId noisy = nn::AddCast(&builder, latents, nn::Element::kCompute);
  noisy = AddFurtherChannels(config, shape, noisy, &builder);
  const ValueId context = JoinContexts(conditions, &builder);
  const ValueId prediction = AddUNet(config, LayerKind::kFrozen, /*lora=*/{}, noisy, timesteps,
                                     context, conditions.text_time, &builder);
  builder.BeginLayer("output", LayerKind::kFrozen);
  builder.MarkOutput(nn::AddCast(&builder, prediction, nn::Element::kF32), "prediction");
  return builder.Build();
}

}  // namespace dpipe::models

#include "models/mmdit/mmdit_denoiser.h"

#include "core/nn/nodes/shape_nodes.h"

namespace dpipe::models {

absl::StatusOr<nn::Program> MmditDenoiser::BuildForTraining(
    const LatentSize& size, const DenoiserTraining& training) const {
  const MmditShape shape = ShapeOf(size);
  DPIPE_RETURN_IF_ERROR(CheckShape(shape));
  const diffusion::Objective& objective = *training.objective;
  nn::ProgramBuilder builder(name());
  const Shape latent({size.height, size.width, latent_channels()});
  const ValueId latents = builder.AddInput("latents", {latent, nn::Element::kF32});
  const ValueId noise = builder.AddInput("noise", {latent, nn::Element::kF32});
  MmditInputs inputs;
  inputs.timesteps = builder.AddInput("timesteps", {Shape(), objective.timestep_element()});
  AddConditions(shape, &builder, &inputs);
  builder.BeginLayer("add_noise", nn::LayerKind::kFrozen);
  inputs.latents = objective.AddNoising(&builder, latents, noise, inputs.timesteps);
  const ValueId prediction =
      AddTransformer(shape, nn::LayerKind::kTrainable, inputs, &builder, training.lora);
  builder.BeginLayer("loss", nn::LayerKind::kTrainable);
  builder.MarkOutput(objective.AddLoss(&builder, {prediction, latents, noise, inputs.timesteps}),
                     "loss");
  return builder.Build();
}

absl::StatusOr<nn::Program> MmditDenoiser::BuildForDrawing(const LatentSize& size) const {
  const MmditShape shape = ShapeOf(size);
  DPIPE_RETURN_IF_ERROR(CheckShape(shape));
  nn::ProgramBuilder builder(name());
  MmditInputs inputs;
  inputs.latents = builder.AddInput(
      "noisy_latents", {Shape({size.height, size.width, latent_channels()}), nn::Element::kF32});
  inputs.timesteps = builder.AddInput("timesteps", {Shape(), nn::Element::kF32});
  AddConditions(shape, &builder, &inputs);
  const ValueId prediction =
      AddTransformer(shape, nn::LayerKind::kFrozen, inputs, &builder, /*lora=*/{});
  builder.MarkOutput(nn::AddCast(&builder, prediction, nn::Element::kF32), "prediction");
  return builder.Build();
}

}  // namespace dpipe::models

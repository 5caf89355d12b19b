#include "models/controlnet/controlnet_denoiser.h"

#include "models/controlnet/controlnet.h"

namespace dpipe::models {
namespace {

constexpr char kLockedEncoder[] = "locked_encoder";

}  // namespace

std::vector<std::shared_ptr<const Condition>> ControlNetDenoiser::conditions() const {
  std::vector<std::shared_ptr<const Condition>> conditions = UNetDenoiser::conditions();
  conditions.push_back(std::make_shared<PictureCondition>());
  return conditions;
}

absl::StatusOr<nn::Program> ControlNetDenoiser::BuildForTraining(
    const LatentSize& size, const DenoiserTraining& training) const {
  return BuildControlNetForTraining(control_, config(), ShapeOf(size), *training.objective);
}

absl::StatusOr<nn::Program> ControlNetDenoiser::BuildForDrawing(const LatentSize& size) const {
  return BuildControlNetForInference(control_, config(), ShapeOf(size));
}

absl::StatusOr<nn::Program> ControlNetDenoiser::BuildAlone(const LatentSize& size) const {
  return BuildControlNetAlone(control_, ShapeOf(size));
}

// The backbone's inputs have the names of the locked encoder's outputs.
absl::StatusOr<std::vector<nn::Component>> ControlNetDenoiser::MakeComponents(
    const LatentSize& size, const DenoiserTraining& training) const {
  DPIPE_ASSIGN_OR_RETURN(nn::Program locked,
                         BuildLockedEncoder(config(), ShapeOf(size), *training.objective));
  DPIPE_ASSIGN_OR_RETURN(nn::Program backbone, BuildForTraining(size, training));
  Sources sources = EncoderSources();
  for (ValueId id : locked.outputs()) {
    const std::string& name = locked.value(id).name;
    sources[name] = {kLockedEncoder, name};
  }
  std::vector<nn::Component> components;
  components.push_back({kLockedEncoder, false, std::move(locked), EncoderSources()});
  components.push_back({"controlnet", true, std::move(backbone), std::move(sources)});
  return components;
}

std::vector<FrozenWeights> ControlNetDenoiser::frozen_weights() const {
  return {{name(), {"up_blocks.", "conv_norm_out.", "conv_out."}}};
}

}  // namespace dpipe::models

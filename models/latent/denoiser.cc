#include "models/latent/denoiser.h"

#include <utility>

namespace dpipe::models {

Sources Denoiser::EncoderSources() const {
  Sources sources = embeddings();
  sources["latents"] = {kVaeEncoderName, "latents"};
  return sources;
}

absl::StatusOr<std::vector<nn::Component>> Denoiser::MakeComponents(
    const LatentSize& size, const DenoiserTraining& training) const {
  DPIPE_ASSIGN_OR_RETURN(nn::Program program, BuildForTraining(size, training));
  std::vector<nn::Component> components;
  components.push_back({name(), true, std::move(program), EncoderSources(), self_conditioning()});
  return components;
}

}  // namespace dpipe::models

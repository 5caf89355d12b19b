#include "models/latent/latent_parts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "data/order/buckets.h"
#include "models/vae/vae.h"

namespace dpipe::models {
namespace {

constexpr int64_t kMaxImageSize = 4096;  // as for --image_size

}  // namespace

int LatentParts::size_multiple() const {
  return static_cast<int>(vae.downscale()) * denoiser->size_multiple();
}

LatentSize LatentParts::LatentSizeOf(ImageSize size) const {
  return {size.height / vae.downscale(), size.width / vae.downscale()};
}

absl::StatusOr<nn::Program> LatentParts::MakeVaeEncoder(ImageSize size) const {
  return BuildVaeEncoder(vae, size.height, size.width);
}

absl::StatusOr<std::vector<nn::Component>> LatentParts::MakeEncoders(ImageSize size) const {
  DPIPE_RETURN_IF_ERROR(CheckSides(size, size_multiple(), folder.path()));
  DPIPE_ASSIGN_OR_RETURN(nn::Program vae_encoder, MakeVaeEncoder(size));
  std::vector<nn::Component> encoders;
  encoders.push_back({kVaeEncoderName, false, std::move(vae_encoder), {}});
  for (const TextEncoder& encoder : text_encoders) {
    DPIPE_ASSIGN_OR_RETURN(nn::Program program, encoder.build());
    program.StoreFrozen(frozen_storage);
    encoders.push_back({encoder.name, false, std::move(program), {}});
  }
  return encoders;
}

absl::StatusOr<std::vector<nn::Component>> LatentParts::MakeDenoiser(ImageSize size) const {
  DPIPE_ASSIGN_OR_RETURN(std::vector<nn::Component> components,
                         denoiser->MakeComponents(LatentSizeOf(size), {objective.get(), lora}));
  for (nn::Component& component : components) component.program.StoreFrozen(base_storage);
  return components;
}

absl::StatusOr<std::vector<nn::Component>> LatentParts::MakeComponents(ImageSize size) const {
  DPIPE_ASSIGN_OR_RETURN(std::vector<nn::Component> components, MakeEncoders(size));
  DPIPE_ASSIGN_OR_RETURN(std::vector<nn::Component> own, MakeDenoiser(size));
  for (nn::Component& component : own) components.push_back(std::move(component));
  return components;
}

absl::StatusOr<VaeConfig> ReadVae(const PipelineFolder& folder, int64_t latent_channels,
                                  const std::string& title) {
  const std::string path = folder.ConfigOf("vae");
  DPIPE_ASSIGN_OR_RETURN(VaeConfig vae, ReadVaeConfig(path));
  if (vae.in_channels != 3 || vae.out_channels != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": the VAE has ", vae.in_channels, " input channels and ", vae.out_channels,
        " output channels; supported are 3 (red, green, blue) and 3"));
  }
  if (vae.latent_channels == latent_channels) return vae;
  return absl::InvalidArgumentError(absl::StrCat(path, ": the VAE has ", vae.latent_channels,
                                                 " latent channels, but the ", title, " has ",
                                                 latent_channels));
}

absl::Status CheckNoShift(const VaeConfig& vae, const std::string& path) {
  if (vae.shift_factor == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": 'shift_factor' is ", vae.shift_factor,
                   "; Stable Diffusion 1 and 2 and SDXL support null or 0"));
}

absl::StatusOr<int> ChooseImageSize(int wanted, int64_t sample_size, const VaeConfig& vae,
                                    const std::string& config_path) {
  if (wanted > 0) return wanted;
  const int64_t size = sample_size * vae.downscale();
  if (size <= kMaxImageSize) return static_cast<int>(size);
  return absl::InvalidArgumentError(
      absl::StrCat(config_path, ": 'sample_size' is ", sample_size, ", which gives ", size,
                   " pixels per side; the maximum is ", kMaxImageSize));
}

}  // namespace dpipe::models

// A KL-VAE as two Programs, encoder and decoder (diffusers AutoencoderKL). Parameters are named and
// shaped as in diffusers' checkpoints; both programs' are in one file.
#ifndef DPIPE_MODELS_VAE_VAE_H_
#define DPIPE_MODELS_VAE_VAE_H_

#include "core/base/status.h"
#include "core/nn/program.h"
#include "models/vae/vae_config.h"

namespace dpipe::models {

// External inputs: "pixels" fp32 [height, width, in_channels] in [-1, 1], "vae_noise" fp32 [height
// / f, width / f, latent_channels] with f = config.downscale(). Output: "latents" fp32, as the
// noise: scaling_factor * (mean + deviation * noise). Height and width are multiples of f, else
// InvalidArgument.
absl::StatusOr<nn::Program> BuildVaeEncoder(const VaeConfig& config, int64_t height, int64_t width,
                                            nn::LayerKind kind = nn::LayerKind::kFrozen);

// External input: "latents" fp32 [height / f, width / f, latent_channels], scaled as the encoder's.
// Output: "pixels" fp32 [height, width, out_channels].
absl::StatusOr<nn::Program> BuildVaeDecoder(const VaeConfig& config, int64_t height, int64_t width,
                                            nn::LayerKind kind = nn::LayerKind::kFrozen);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_VAE_VAE_H_

// A KL-VAE (diffusers AutoencoderKL) as two Programs, encoder and decoder. Parameters are named and
// shaped as in diffusers' checkpoints, which hold both programs' parameters in one file.
#ifndef DPIPE_MODELS_VAE_VAE_H_
#define DPIPE_MODELS_VAE_VAE_H_

#include "core/base/status.h"
#include "core/nn/program.h"
#include "models/vae/vae_config.h"

namespace dpipe::models {

// Builds the encoder. External inputs, with f = config.downscale(): "pixels" fp32
// [height, width, in_channels] in [-1, 1] and "vae_noise" fp32
// [height / f, width / f, latent_channels]. Output: "latents" fp32, shaped as the noise:
// scaling_factor * (mean + deviation * noise - shift_factor). Returns InvalidArgument unless height
// and width are positive multiples of f.
absl::StatusOr<nn::Program> BuildVaeEncoder(const VaeConfig& config, int64_t height, int64_t width,
                                            nn::LayerKind kind = nn::LayerKind::kFrozen);

// Builds the decoder. External input: "latents" fp32 [height / f, width / f, latent_channels],
// scaled as the encoder's output. Output: "pixels" fp32 [height, width, out_channels]. Errors are
// those of the encoder.
absl::StatusOr<nn::Program> BuildVaeDecoder(const VaeConfig& config, int64_t height, int64_t width,
                                            nn::LayerKind kind = nn::LayerKind::kFrozen);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_VAE_VAE_H_

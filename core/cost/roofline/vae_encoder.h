// The encoder of a KL-VAE (diffusers AutoencoderKL): (128, 256, 512, 512) channels, 8 pixels per
// latent.
#ifndef DPIPE_CORE_COST_ROOFLINE_VAE_ENCODER_H_
#define DPIPE_CORE_COST_ROOFLINE_VAE_ENCODER_H_

#include "core/cost/roofline/component_builder.h"

namespace dpipe::roofline {

struct VaeEncoderOptions {
  int64_t image_size = 512;  // height and width, a multiple of 8
  int64_t latent_channels = 4;
  bool quant_conv = true;
  std::vector<int64_t> channels = {128, 256, 512, 512};
  int layers_per_block = 2;
};

// A frozen component "vae_encoder". External inputs: "pixels" and "vae_noise" fp32. Output:
// "latents" fp32 [image_size / 8, image_size / 8, latent_channels].
ComponentWork VaeEncoder(const VaeEncoderOptions& options);

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_VAE_ENCODER_H_

// The nodes between the VAE's networks and the latents of diffusion.
#ifndef DPIPE_MODELS_VAE_LATENT_NODES_H_
#define DPIPE_MODELS_VAE_LATENT_NODES_H_

#include "core/nn/program_builder.h"

namespace dpipe::models {

// moments [H, W, 2C], noise fp32 [H, W, C] -> factor * (mean + deviation * noise), fp32 [H, W, C].
// Only the moments get a gradient. Saves both inputs.
ValueId AddLatentSample(nn::ProgramBuilder* builder, ValueId moments, ValueId noise, float factor);

// x fp32 [H, W, C] -> x + shift, fp32. Returns x itself if the shift is 0. Saves nothing.
ValueId AddLatentShift(nn::ProgramBuilder* builder, ValueId x, float shift);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_VAE_LATENT_NODES_H_

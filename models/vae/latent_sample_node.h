// The node that samples latents from the encoder's moments.
#ifndef DPIPE_MODELS_VAE_LATENT_SAMPLE_NODE_H_
#define DPIPE_MODELS_VAE_LATENT_SAMPLE_NODE_H_

#include "core/nn/program_builder.h"

namespace dpipe::models {

// moments [H, W, 2C], noise fp32 [H, W, C] -> factor * (mean + deviation * noise), fp32 [H, W, C].
// Only the moments get a gradient. Saves both inputs.
ValueId AddLatentSample(nn::ProgramBuilder* builder, ValueId moments, ValueId noise, float factor);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_VAE_LATENT_SAMPLE_NODE_H_

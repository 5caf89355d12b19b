// Drawing latents from the encoder's moments as a node.
#ifndef DPIPE_MODELS_VAE_LATENT_SAMPLE_NODE_H_
#define DPIPE_MODELS_VAE_LATENT_SAMPLE_NODE_H_

#include "core/nn/program_builder.h"

namespace dpipe::models {

// moments [H, W, 2C], noise fp32 [H, W, C] -> factor * (mean + deviation * noise), fp32 [H, W, C].
// The gradient goes to the moments. Saves both.
ValueId AddLatentSample(nn::ProgramBuilder* builder, ValueId moments, ValueId noise, float factor);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_VAE_LATENT_SAMPLE_NODE_H_

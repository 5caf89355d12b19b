// Stable Diffusion XL (Podell et al., arXiv 2307.01952; diffusers StableDiffusionXLPipeline): two
// CLIP text encoders, a U-Net that also reads pooled text and the size and crop of pictures, and a
// noise schedule.
#ifndef DPIPE_MODELS_SDXL_SDXL_H_
#define DPIPE_MODELS_SDXL_SDXL_H_

#include <string>

#include "core/base/status.h"
#include "models/folder/load_options.h"
#include "models/latent/latent_parts.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

// Reads the tokenizers and the configurations, but no weights. The components are "vae_encoder"
// (pixels, vae_noise -> latents), "text_encoder" (ids -> penultimate_hidden_state),
// "text_encoder_2" (ids -> penultimate_hidden_state, text_embeds) and "unet". Errors name the file
// and the problem. Returns InvalidArgument if model_index.json has another class, or lacks a text
// encoder, as the refiner's does, or if the parts do not fit together.
absl::StatusOr<LatentParts> ReadStableDiffusionXl(const std::string& folder,
                                                  const LoadModelOptions& options);

// "sdxl": a StableDiffusionXLPipeline.
ModelKind StableDiffusionXlKind();

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_SDXL_SDXL_H_

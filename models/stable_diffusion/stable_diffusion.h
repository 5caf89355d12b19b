// Stable Diffusion 1 and 2 (diffusers StableDiffusionPipeline): one CLIP text encoder, a U-Net, and
// a noise schedule.
#ifndef DPIPE_MODELS_STABLE_DIFFUSION_STABLE_DIFFUSION_H_
#define DPIPE_MODELS_STABLE_DIFFUSION_STABLE_DIFFUSION_H_

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "models/folder/load_options.h"
#include "models/latent/latent_parts.h"
#include "models/latent/latent_pipeline.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

// Returns the classes of folders that are read, its own first. Other pipelines use the same parts
// in other ways.
const std::vector<std::string>& StableDiffusionClasses();

// Reads the tokenizer and the configurations, corrected as in diffusers (config_corrections.h), but
// no weights. The components are "vae_encoder" (pixels, vae_noise -> latents), "text_encoder" (ids
// -> last_hidden_state) and "unet". Errors name the file and the problem. Returns InvalidArgument
// if model_index.json has a class outside StableDiffusionClasses, or components beyond one U-Net
// and one text encoder.
absl::StatusOr<LatentParts> ReadStableDiffusion(const std::string& folder,
                                                const LoadModelOptions& options);

// The same with weights. Errors are also those of LatentPipeline::Load.
absl::StatusOr<std::unique_ptr<LatentPipeline>> LoadStableDiffusion(
    const std::string& folder, const LoadModelOptions& options);

// "stable_diffusion": a StableDiffusionPipeline.
ModelKind StableDiffusionKind();

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_STABLE_DIFFUSION_STABLE_DIFFUSION_H_

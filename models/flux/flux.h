// FLUX.1 dev and schnell (diffusers FluxPipeline): pooled CLIP-L and T5, a transformer, flow
// matching.
#ifndef DPIPE_MODELS_FLUX_FLUX_H_
#define DPIPE_MODELS_FLUX_FLUX_H_

#include <string>

#include "core/base/status.h"
#include "models/folder/load_options.h"
#include "models/latent/latent_parts.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

inline constexpr char kFluxClass[] = "FluxPipeline";

// Reads the tokenizers and the configurations, but no weights. The components are "vae_encoder",
// "text_encoder" (ids -> pooler_output), "text_encoder_2" (ids -> last_hidden_state) and
// "transformer".
//
// - Texts have options.max_sequence_length tokens for T5; by default 512 if the transformer embeds
//   the guidance scale (dev), else 256 (schnell), or the tokenizer's model_max_length if that is
//   smaller.
// - Images have the VAE's sample_size unless options.image_size is set. Levels of drawing are
//   spaced as in FluxPipeline and shifted by the number of image tokens if the scheduler says so.
// - Low-rank adapters adapt options.lora.targets: by default DefaultMmditLoraTargets(), with
//   kAllLinear every linear layer.
//
// Errors name the file and the problem. Returns InvalidArgument if the class is not kFluxClass, if
// components do not fit together, or for options that flow matching lacks: self-conditioning,
// coordinates, min-SNR weights, a prediction type, a terminal SNR.
absl::StatusOr<LatentParts> ReadFlux(const std::string& folder, const LoadModelOptions& options);

// "flux": a FluxPipeline.
ModelKind FluxKind();

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_FLUX_FLUX_H_

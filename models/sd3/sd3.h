// Stable Diffusion 3 and 3.5 (diffusers StableDiffusion3Pipeline): two CLIPs and, if the folder has
// it, T5; a transformer; flow matching.
#ifndef DPIPE_MODELS_SD3_SD3_H_
#define DPIPE_MODELS_SD3_SD3_H_

#include <string>

#include "core/base/status.h"
#include "models/folder/load_options.h"
#include "models/latent/latent_parts.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

inline constexpr char kSd3Class[] = "StableDiffusion3Pipeline";

// Reads the tokenizers and the configurations, but no weights. The components are "vae_encoder",
// "text_encoder" and "text_encoder_2" (ids -> penultimate_hidden_state, text_embeds), if the index
// names it "text_encoder_3" (ids -> last_hidden_state), and "transformer".
//
// - Texts have options.max_sequence_length tokens for T5; by default 256, or the tokenizer's
//   model_max_length if that is smaller. Without T5 they have as many tokens of zeros.
// - Training draws noise levels from a logit-normal density, as the paper (Esser et al., arXiv
//   2403.03206) and diffusers' examples. Levels of drawing are shifted as the scheduler says.
// - Low-rank adapters adapt options.lora.targets, as in ReadFlux.
//
// Errors name the file and the problem. Returns InvalidArgument if the class is not kSd3Class, if a
// CLIP is missing, if components do not fit together, or for options that flow matching lacks
// (flow_parts.h).
absl::StatusOr<LatentParts> ReadSd3(const std::string& folder, const LoadModelOptions& options);

// "sd3": a StableDiffusion3Pipeline.
ModelKind Sd3Kind();

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_SD3_SD3_H_

// A small model family for tests, with what Stable Diffusion lacks: two text encoders with
// tokenizers of their own, a pooled embedding, a guidance scale as a condition, and flow matching.
#ifndef DPIPE_MODELS_LATENT_TESTING_TOY_FAMILY_H_
#define DPIPE_MODELS_LATENT_TESTING_TOY_FAMILY_H_

#include <string>

#include "core/base/status.h"
#include "models/latent/latent_parts.h"

namespace dpipe::models {

// Writes a folder without weights: the VAE and the tokenizer of data/tiny_sd, the latter twice, the
// second with at most kSecondLength tokens.
inline constexpr int kSecondLength = 12;
void WriteToyFolder(const std::string& folder);

// Components: "vae_encoder"; "text_encoder" (ids -> states), "text_encoder_2" (ids -> states,
// pooled); "transformer" (states of both, pooled, guidance). A new transformer predicts zeros.
absl::StatusOr<LatentParts> ReadToyFamily(const std::string& folder);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LATENT_TESTING_TOY_FAMILY_H_

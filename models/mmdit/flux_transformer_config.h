// The configuration of FLUX.1's transformer (diffusers FluxTransformer2DModel), from its
// config.json.
#ifndef DPIPE_MODELS_MMDIT_FLUX_TRANSFORMER_CONFIG_H_
#define DPIPE_MODELS_MMDIT_FLUX_TRANSFORMER_CONFIG_H_

#include <array>
#include <cstdint>
#include <string>

#include "core/base/status.h"

namespace dpipe::models {

// The defaults are diffusers' own.
struct FluxTransformerConfig {
  int64_t in_channels = 64;  // of a token: four pixels of latents
  int64_t num_layers = 19, num_single_layers = 38;
  int64_t head_size = 128, num_heads = 24;
  int64_t context_width = 4096;  // joint_attention_dim
  int64_t pooled_width = 768;    // pooled_projection_dim
  bool guidance_embeds = false;  // true for dev, false for schnell
  std::array<int64_t, 3> axes_dims_rope = {16, 56, 56};

  int64_t width() const { return num_heads * head_size; }
  int64_t latent_channels() const { return in_channels / 4; }
};

// Parses the text of a config.json; `source` names the file in messages. Returns InvalidArgument
// with the problems of up to five keys if values are wrong or not supported.
absl::StatusOr<FluxTransformerConfig> ParseFluxTransformerConfig(const std::string& json,
                                                                 const std::string& source);
absl::StatusOr<FluxTransformerConfig> ReadFluxTransformerConfig(const std::string& path);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_MMDIT_FLUX_TRANSFORMER_CONFIG_H_

// The configuration of Stable Diffusion 3's transformer (diffusers SD3Transformer2DModel), from its
// config.json.
#ifndef DPIPE_MODELS_MMDIT_SD3_TRANSFORMER_CONFIG_H_
#define DPIPE_MODELS_MMDIT_SD3_TRANSFORMER_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::models {

// The defaults are diffusers' own.
struct Sd3TransformerConfig {
  int64_t sample_size = 128;  // height and width of the latents to which positions are scaled
  int64_t in_channels = 16, out_channels = 16;
  int64_t num_layers = 18;
  int64_t head_size = 64, num_heads = 18;
  int64_t context_width = 4096;     // joint_attention_dim
  int64_t pooled_width = 2048;      // pooled_projection_dim
  int64_t pos_embed_max_size = 96;  // rows and columns of the position table, in tokens
  bool qk_norm = false;
  std::vector<bool> dual_attention;  // by layer

  int64_t width() const { return num_heads * head_size; }
};

// Parses the text of a config.json; `source` names the file in messages. Returns InvalidArgument
// with the problems of up to five keys if values are wrong or not supported.
absl::StatusOr<Sd3TransformerConfig> ParseSd3TransformerConfig(const std::string& json,
                                                               const std::string& source);
absl::StatusOr<Sd3TransformerConfig> ReadSd3TransformerConfig(const std::string& path);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_MMDIT_SD3_TRANSFORMER_CONFIG_H_

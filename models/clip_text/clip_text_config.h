// The configuration of a CLIP text encoder (transformers CLIPTextModel and
// CLIPTextModelWithProjection), from its config.json.
#ifndef DPIPE_MODELS_CLIP_TEXT_CLIP_TEXT_CONFIG_H_
#define DPIPE_MODELS_CLIP_TEXT_CLIP_TEXT_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/status.h"
#include "core/ops/elementwise/elementwise.h"

namespace dpipe::models {

struct ClipTextConfig {
  int64_t vocab_size = 49408;
  int64_t hidden_size = 768;
  int64_t intermediate_size = 3072;
  int64_t num_layers = 12;
  int64_t num_heads = 12;
  int64_t max_positions = 77;
  double norm_eps = 1e-5;
  ops::Activation activation = ops::Activation::kQuickGelu;
  // True for CLIPTextModelWithProjection: its checkpoint has text_projection.weight
  // [projection_size, hidden_size].
  bool with_projection = false;
  int64_t projection_size = 512;
  // The token whose first occurrence ends the text, for the pooled output. Not set for older
  // checkpoints, whose files wrongly say 2: the token with the largest id ends their texts.
  std::optional<int32_t> end_token = 49407;
};

// Parses the text of a config.json; `source` names the file in messages. Returns InvalidArgument
// with the problems of up to five keys if values are wrong or not supported.
absl::StatusOr<ClipTextConfig> ParseClipTextConfig(const std::string& json,
                                                   const std::string& source);
absl::StatusOr<ClipTextConfig> ReadClipTextConfig(const std::string& path);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CLIP_TEXT_CLIP_TEXT_CONFIG_H_

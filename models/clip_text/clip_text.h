// CLIP's text encoder as a Program (transformers CLIPTextModel and CLIPTextModelWithProjection).
// Parameters are named and shaped as in transformers' checkpoints.
#ifndef DPIPE_MODELS_CLIP_TEXT_CLIP_TEXT_H_
#define DPIPE_MODELS_CLIP_TEXT_CLIP_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/program.h"
#include "core/ops/elementwise/elementwise.h"

namespace dpipe::models {

// The configuration of a CLIP text encoder (transformers CLIPTextModel and
// CLIPTextModelWithProjection), from its config.json.
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

// The states of all tokens that a program computes.
enum class ClipStates {
  kNone,
  kLast,                 // after all layers and the final norm: Stable Diffusion 1 and 2
  kPenultimate,          // after all layers but the last, hidden_states[-2]: SDXL, SD 3
  kPenultimateWithNorm,  // the same, then the final norm: diffusers' clip_skip=1
};

struct ClipTextOutputs {
  ClipStates states = ClipStates::kLast;
  // The end token's state after all layers and the final norm and, if the config has one, the
  // projection: transformers' pooler_output (FLUX.1) or text_embeds (SDXL, SD 3).
  bool pooled = false;
};

// Builds the program. External input: "ids" int32 [length]. Outputs, in the compute dtype, if asked
// for: "last_hidden_state" or "penultimate_hidden_state" [length, hidden_size]; "text_embeds"
// [projection_size] or, without a projection, "pooler_output" [hidden_size].
//
// Attention is causal: a token attends to itself and to earlier tokens. Layers that no output needs
// are left out. Returns InvalidArgument if the length is not in [1, max_positions], if there is no
// output, or if a norm of the penultimate states is combined with the pooled output.
absl::StatusOr<nn::Program> BuildClipText(const ClipTextConfig& config, int64_t length,
                                          nn::LayerKind kind = nn::LayerKind::kFrozen,
                                          const ClipTextOutputs& outputs = {});

// Returns the prefixes of the checkpoint's tensors that these outputs do not need, for
// LoadWeightsOptions::ignored_prefixes.
std::vector<std::string> UnusedClipTextPrefixes(const ClipTextConfig& config,
                                                const ClipTextOutputs& outputs);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CLIP_TEXT_CLIP_TEXT_H_

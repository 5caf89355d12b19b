#include "models/clip_text/clip_text_config.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "models/config/component_config.h"

namespace dpipe::models {

absl::StatusOr<ClipTextConfig> ParseClipTextConfig(const std::string& json,
                                                   const std::string& source) {
  DPIPE_ASSIGN_OR_RETURN(ComponentConfig config, ComponentConfig::Parse(json, source));
  DPIPE_RETURN_IF_ERROR(config.CheckKind("model_type", "clip_text_model"));
  ClipTextConfig clip;
  clip.vocab_size = config.PositiveInt("vocab_size", 49408);
  clip.hidden_size = config.PositiveInt("hidden_size", 512);
  clip.intermediate_size = config.PositiveInt("intermediate_size", 2048);
  clip.num_layers = config.PositiveInt("num_hidden_layers", 12);
  clip.num_heads = config.PositiveInt("num_attention_heads", 8);
  clip.max_positions = config.PositiveInt("max_position_embeddings", 77);
  clip.norm_eps = config.Number("layer_norm_eps", 1e-5);
  const std::vector<std::string> classes = config.Strings("architectures", {"CLIPTextModel"});
  clip.with_projection =
      std::find(classes.begin(), classes.end(), "CLIPTextModelWithProjection") != classes.end();
  clip.projection_size = config.PositiveInt("projection_dim", 512);
  const int64_t end_token = config.PositiveInt("eos_token_id", 49407);
  clip.end_token.reset();
  if (end_token != 2) clip.end_token = static_cast<int32_t>(end_token);
  const std::string activation = config.String("hidden_act", "quick_gelu");
  if (activation == "gelu") {
    clip.activation = ops::Activation::kGelu;
  } else if (activation != "quick_gelu") {
    config.AddProblem("hidden_act", "supported: \"gelu\", \"quick_gelu\"");
  }
  if (clip.hidden_size % clip.num_heads != 0) {
    config.AddProblem("hidden_size",
                      absl::StrCat("expected a multiple of the ", clip.num_heads, " heads"));
  }
  DPIPE_RETURN_IF_ERROR(config.status());
  return clip;
}

absl::StatusOr<ClipTextConfig> ReadClipTextConfig(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseClipTextConfig(text, path);
}

}  // namespace dpipe::models

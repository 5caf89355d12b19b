#include "models/mmdit/sd3_transformer_config.h"

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "models/config/component_config.h"

namespace dpipe::models {

absl::StatusOr<Sd3TransformerConfig> ParseSd3TransformerConfig(const std::string& json,
                                                               const std::string& source) {
  DPIPE_ASSIGN_OR_RETURN(ComponentConfig config, ComponentConfig::Parse(json, source));
  DPIPE_RETURN_IF_ERROR(config.CheckKind("_class_name", "SD3Transformer2DModel"));
  Sd3TransformerConfig sd3;
  sd3.sample_size = config.PositiveInt("sample_size", 128);
  sd3.in_channels = config.PositiveInt("in_channels", 16);
  sd3.out_channels =
      config.PositiveInt("out_channels", config.IsNull("out_channels") ? sd3.in_channels : 16);
  sd3.num_layers = config.PositiveInt("num_layers", 18);
  sd3.head_size = config.PositiveInt("attention_head_dim", 64);
  sd3.num_heads = config.PositiveInt("num_attention_heads", 18);
  sd3.context_width = config.PositiveInt("joint_attention_dim", 4096);
  sd3.pooled_width = config.PositiveInt("pooled_projection_dim", 2048);
  sd3.pos_embed_max_size = config.PositiveInt("pos_embed_max_size", 96);
  sd3.dual_attention = config.Indices("dual_attention_layers", sd3.num_layers);
  sd3.qk_norm = !config.String("qk_norm", "").empty();
  config.Expect("qk_norm", {"null", "\"rms_norm\""});
  config.Expect("patch_size", {"2"});
  // The text tokens enter the blocks as context_embedder returns them.
  if (config.PositiveInt("caption_projection_dim", 1152) != sd3.width()) {
    config.AddProblem(
        "caption_projection_dim",
        absl::StrCat("expected ", sd3.width(), ", ", sd3.num_heads, " heads of ", sd3.head_size));
  }
  if (sd3.width() % 4 != 0) {
    config.AddProblem("attention_head_dim", absl::StrCat("which makes a width of ", sd3.width(),
                                                         "; positions need a multiple of 4"));
  }
  if (sd3.sample_size < 2) config.AddProblem("sample_size", "expected at least 2");
  DPIPE_RETURN_IF_ERROR(config.status());
  return sd3;
}

absl::StatusOr<Sd3TransformerConfig> ReadSd3TransformerConfig(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseSd3TransformerConfig(text, path);
}

}  // namespace dpipe::models

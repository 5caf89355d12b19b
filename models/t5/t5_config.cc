#include "models/t5/t5_config.h"

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "models/config/component_config.h"

namespace dpipe::models {

absl::StatusOr<T5Config> ParseT5Config(const std::string& json, const std::string& source) {
  DPIPE_ASSIGN_OR_RETURN(ComponentConfig config, ComponentConfig::Parse(json, source));
  DPIPE_RETURN_IF_ERROR(config.CheckKind("model_type", "t5"));
  // Missing keys have the defaults of transformers' T5Config.
  T5Config t5;
  t5.vocab_size = config.PositiveInt("vocab_size", 32128);
  t5.width = config.PositiveInt("d_model", 512);
  t5.head_size = config.PositiveInt("d_kv", 64);
  t5.inner_width = config.PositiveInt("d_ff", 2048);
  t5.num_layers = config.PositiveInt("num_layers", 6);
  t5.num_heads = config.PositiveInt("num_heads", 8);
  t5.num_buckets = config.PositiveInt("relative_attention_num_buckets", 32);
  t5.max_distance = config.PositiveInt("relative_attention_max_distance", 128);
  t5.norm_eps = config.Number("layer_norm_epsilon", 1e-6);
  if (config.String("feed_forward_proj", "relu") != "gated-gelu") {
    config.AddProblem("feed_forward_proj", "supported: \"gated-gelu\" (T5 v1.1)");
  }
  if (t5.num_buckets % 4 != 0 || t5.num_buckets > 128) {
    config.AddProblem("relative_attention_num_buckets", "expected a multiple of 4 up to 128");
  } else if (t5.max_distance <= t5.num_buckets / 4) {
    config.AddProblem("relative_attention_max_distance",
                      absl::StrCat("expected more than a quarter of the ", t5.num_buckets,
                                   " relative_attention_num_buckets"));
  }
  DPIPE_RETURN_IF_ERROR(config.status());
  return t5;
}

absl::StatusOr<T5Config> ReadT5Config(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseT5Config(text, path);
}

}  // namespace dpipe::models

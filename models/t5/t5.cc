#include "models/t5/t5.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/nn/nodes/activation_nodes.h"
#include "core/nn/nodes/attention_node.h"
#include "core/nn/nodes/embedding_nodes.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/program_builder.h"
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

namespace {

// Adds a linear layer without a bias, and the residual `addend` if there is one.
ValueId Project(nn::ProgramBuilder* builder, const std::string& name, ValueId x, int64_t width,
                std::optional<ValueId> addend = std::nullopt) {
  nn::LinearSpec spec{width, /*bias=*/false};
  spec.addend = addend;
  return nn::AddLinear(builder, name, x, spec);
}

// x [T, width] -> the same: attention, then a gated feed-forward network, each a layer with a
// residual connection.
ValueId AddBlock(const T5Config& config, const std::string& name, ValueId x, ValueId bias,
                 nn::LayerKind kind, nn::ProgramBuilder* builder) {
  const ops::RmsNormParams norm{static_cast<float>(config.norm_eps)};
  const int64_t heads_width = config.num_heads * config.head_size;
  builder->BeginLayer(name + ".layer.0", kind);
  const std::string attention = name + ".layer.0.SelfAttention";
  ValueId h = nn::AddRmsNorm(builder, name + ".layer.0.layer_norm", x, norm);
  const ValueId q = Project(builder, attention + ".q", h, heads_width);
  const ValueId k = Project(builder, attention + ".k", h, heads_width);
  const ValueId v = Project(builder, attention + ".v", h, heads_width);
  h = nn::AddAttentionWithBias(builder, q, k, v, bias, static_cast<int>(config.num_heads));
  x = Project(builder, attention + ".o", h, config.width, x);

  builder->BeginLayer(name + ".layer.1", kind);
  const std::string mlp = name + ".layer.1.DenseReluDense";
  h = nn::AddRmsNorm(builder, name + ".layer.1.layer_norm", x, norm);
  const ValueId gate = nn::AddActivation(
      builder, Project(builder, mlp + ".wi_0", h, config.inner_width), ops::Activation::kGeluTanh);
  h = nn::AddProduct(builder, gate, Project(builder, mlp + ".wi_1", h, config.inner_width));
  return Project(builder, mlp + ".wo", h, config.width, x);
}

}  // namespace

absl::StatusOr<nn::Program> BuildT5Encoder(const T5Config& config, int64_t length,
                                           nn::LayerKind kind) {
  if (length < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("T5 encoder: ", length, " tokens; use at least 1"));
  }
  nn::ProgramBuilder builder("t5_encoder");
  const ValueId ids = builder.AddInput("ids", {Shape({length}), nn::Element::kI32});
  builder.BeginLayer("shared", kind);
  nn::TokenEmbeddingSpec embedding;
  embedding.table_name = "shared.weight";
  embedding.vocabulary = config.vocab_size;
  embedding.width = config.width;
  embedding.deviation = 1;
  ValueId x = nn::AddTokenEmbedding(&builder, ids, embedding);
  ops::RelativeBiasParams bias_params;
  bias_params.num_buckets = static_cast<int>(config.num_buckets);
  bias_params.max_distance = static_cast<int>(config.max_distance);
  bias_params.queries = bias_params.keys = length;
  const ValueId bias =
      nn::AddRelativeBias(&builder, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
                          ids, config.num_heads, bias_params);
  for (int i = 0; i < config.num_layers; ++i) {
    x = AddBlock(config, absl::StrCat("encoder.block.", i), x, bias, kind, &builder);
  }
  builder.BeginLayer("encoder.final_layer_norm", kind);
  x = nn::AddRmsNorm(&builder, "encoder.final_layer_norm", x,
                     {static_cast<float>(config.norm_eps)});
  builder.MarkOutput(x, "last_hidden_state");
  return builder.Build();
}

}  // namespace dpipe::models

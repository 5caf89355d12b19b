#include "models/t5/t5.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/nn/nodes/activation_nodes.h"
#include "core/nn/nodes/attention_node.h"
#include "core/nn/nodes/embedding_nodes.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/program_builder.h"

namespace dpipe::models {
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

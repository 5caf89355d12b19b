#include "models/clip_text/clip_text.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/nn/blocks/attention_block.h"
#include "core/nn/nodes/activation_nodes.h"
#include "core/nn/nodes/embedding_nodes.h"
#include "core/nn/nodes/linear_node.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/program_builder.h"

namespace dpipe::models {
namespace {

// x [T, C] -> [T, C]: attention, then a feed-forward network, each a layer with a residual
// connection.
ValueId AddEncoderLayer(const ClipTextConfig& config, const std::string& name, ValueId x,
                        nn::LayerKind kind, nn::ProgramBuilder* builder) {
  const ops::LayerNormParams norm{static_cast<float>(config.norm_eps)};
  nn::AttentionSpec attention;
  attention.num_heads = static_cast<int>(config.num_heads);
  attention.causal = true;
  attention.qkv_bias = true;
  attention.q = "q_proj";
  attention.k = "k_proj";
  attention.v = "v_proj";
  attention.out = "out_proj";
  builder->BeginLayer(name + ".self_attn", kind);
  ValueId h = nn::AddLayerNorm(builder, name + ".layer_norm1", x, norm);
  attention.addend = x;
  x = nn::AddAttentionBlock(builder, name + ".self_attn", h, h, attention);
  builder->BeginLayer(name + ".mlp", kind);
  h = nn::AddLayerNorm(builder, name + ".layer_norm2", x, norm);
  h = nn::AddLinear(builder, name + ".mlp.fc1", h, {config.intermediate_size});
  h = nn::AddActivation(builder, h, config.activation);
  nn::LinearSpec down{config.hidden_size};
  down.addend = x;
  return nn::AddLinear(builder, name + ".mlp.fc2", h, down);
}

}  // namespace

absl::StatusOr<nn::Program> BuildClipText(const ClipTextConfig& config, int64_t length,
                                          nn::LayerKind kind) {
  if (length < 1 || length > config.max_positions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "text_encoder: ", length, " tokens, but it has positions for 1 to ", config.max_positions));
  }
  nn::ProgramBuilder builder("text_encoder");
  const ValueId ids = builder.AddInput("ids", {Shape({length}), nn::Element::kI32});
  builder.BeginLayer("text_model.embeddings", kind);
  nn::TokenEmbeddingSpec embedding;
  embedding.table_name = "text_model.embeddings.token_embedding.weight";
  embedding.positions_name = "text_model.embeddings.position_embedding.weight";
  embedding.vocabulary = config.vocab_size;
  embedding.positions = config.max_positions;
  embedding.width = config.hidden_size;
  ValueId x = nn::AddTokenEmbedding(&builder, ids, embedding);
  for (int i = 0; i < config.num_layers; ++i) {
    x = AddEncoderLayer(config, absl::StrCat("text_model.encoder.layers.", i), x, kind, &builder);
  }
  builder.BeginLayer("text_model.final_layer_norm", kind);
  x = nn::AddLayerNorm(&builder, "text_model.final_layer_norm", x,
                       {static_cast<float>(config.norm_eps)});
  builder.MarkOutput(x, "last_hidden_state");
  return builder.Build();
}

}  // namespace dpipe::models

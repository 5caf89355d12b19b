#include "models/clip_text/clip_text.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/nn/blocks/transformer_block.h"
#include "core/nn/nodes/activation_nodes.h"
#include "core/nn/nodes/embedding_nodes.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "core/nn/program_builder.h"
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

bool IsPenultimate(ClipStates states) {
  return states == ClipStates::kPenultimate || states == ClipStates::kPenultimateWithNorm;
}
// True if the outputs need the last layer.
bool NeedsLast(const ClipTextOutputs& outputs) {
  return outputs.pooled || outputs.states == ClipStates::kLast;
}
// True if the outputs need the final norm.
bool NeedsNorm(const ClipTextOutputs& outputs) {
  return NeedsLast(outputs) || outputs.states == ClipStates::kPenultimateWithNorm;
}

absl::Status CheckOutputs(const ClipTextConfig& config, const ClipTextOutputs& outputs) {
  if (outputs.states == ClipStates::kNone && !outputs.pooled) {
    return absl::InvalidArgumentError("text_encoder: neither states nor the pooled output is used");
  }
  if (outputs.states == ClipStates::kPenultimateWithNorm && outputs.pooled) {
    return absl::InvalidArgumentError(
        "text_encoder: the final norm is applied either to the penultimate states or for the "
        "pooled output");
  }
  if (IsPenultimate(outputs.states) && config.num_layers < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "text_encoder: ", config.num_layers, " layer has no penultimate states; use at least 2"));
  }
  return absl::OkStatus();
}

// Marks a value as an output. One that is read again needs a node of its own, because its gradient
// comes from both its readers and the caller.
void MarkStates(nn::ProgramBuilder* builder, ValueId x, bool is_read, const std::string& name) {
  builder->MarkOutput(is_read ? nn::AddReshape(builder, x, builder->shape(x)) : x, name);
}

}  // namespace

std::vector<std::string> UnusedClipTextPrefixes(const ClipTextConfig& config,
                                                const ClipTextOutputs& outputs) {
  std::vector<std::string> parts;
  if (!NeedsLast(outputs)) {
    parts.push_back(absl::StrCat("encoder.layers.", config.num_layers - 1, "."));
  }
  if (!NeedsNorm(outputs)) parts.push_back("final_layer_norm.");
  std::vector<std::string> prefixes;
  for (const std::string& part : parts) {
    prefixes.push_back(part);  // of files without text_model.
    prefixes.push_back("text_model." + part);
  }
  // Some files of models without a projection have one, which transformers ignores too.
  if (!config.with_projection || !outputs.pooled) prefixes.push_back("text_projection.");
  return prefixes;
}

absl::StatusOr<nn::Program> BuildClipText(const ClipTextConfig& config, int64_t length,
                                          nn::LayerKind kind, const ClipTextOutputs& outputs) {
  DPIPE_RETURN_IF_ERROR(CheckOutputs(config, outputs));
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
  for (int64_t i = 0; i < config.num_layers; ++i) {
    if (i + 1 == config.num_layers) {
      if (outputs.states == ClipStates::kPenultimate) {
        MarkStates(&builder, x, /*is_read=*/outputs.pooled, "penultimate_hidden_state");
      }
      if (!NeedsLast(outputs)) break;
    }
    x = AddEncoderLayer(config, absl::StrCat("text_model.encoder.layers.", i), x, kind, &builder);
  }
  if (!NeedsNorm(outputs)) return builder.Build();
  builder.BeginLayer("text_model.final_layer_norm", kind);
  x = nn::AddLayerNorm(&builder, "text_model.final_layer_norm", x,
                       {static_cast<float>(config.norm_eps)});
  if (outputs.states == ClipStates::kPenultimateWithNorm) {
    builder.MarkOutput(x, "penultimate_hidden_state");
  } else if (outputs.states == ClipStates::kLast) {
    MarkStates(&builder, x, /*is_read=*/outputs.pooled, "last_hidden_state");
  }
  if (!outputs.pooled) return builder.Build();
  const ValueId pooled = nn::AddSelectToken(&builder, x, ids, config.end_token);
  if (!config.with_projection) {
    builder.MarkOutput(pooled, "pooler_output");
    return builder.Build();
  }
  builder.BeginLayer("text_projection", kind);
  const nn::LinearSpec projection{config.projection_size, /*bias=*/false};
  builder.MarkOutput(nn::AddLinear(&builder, "text_projection", pooled, projection), "text_embeds");
  return builder.Build();
}

}  // namespace dpipe::models

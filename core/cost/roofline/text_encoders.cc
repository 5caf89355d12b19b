#include "core/cost/roofline/text_encoders.h"

#include "absl/strings/str_cat.h"
#include "core/cost/roofline/component_builder.h"

namespace dpipe::roofline {
namespace {

constexpr int64_t kClipLength = 77;
constexpr int64_t kClipVocabulary = 49408;
constexpr int64_t kT5Vocabulary = 32128;
constexpr int64_t kT5Width = 4096;
constexpr int64_t kT5Hidden = 10240;
constexpr int kT5Layers = 24;
constexpr int64_t kT5Heads = 64;
constexpr int64_t kT5PositionBuckets = 32;

Value AddClipLayer(ComponentBuilder* builder, const std::string& name, Value x, int64_t hidden) {
  builder->BeginLayer(name + ".self_attn", FROZEN);
  Value h = builder->LayerNorm(x);
  x = builder->Add(x, builder->ProjectedAttention(h, h, /*qkv_bias=*/true));
  builder->BeginLayer(name + ".mlp", FROZEN);
  h = builder->Activation(builder->Linear(builder->LayerNorm(x), hidden));
  return builder->Add(x, builder->Linear(h, x.channels()));
}

// x [T, C] -> [T, C]. The first layer has the table of relative positions.
Value AddT5Layer(ComponentBuilder* builder, const std::string& name, Value x, bool first) {
  builder->BeginLayer(name + ".attention", FROZEN);
  Value h = builder->RmsNorm(x);
  if (first) builder->Embedding({h.id, {1}}, kT5PositionBuckets, 0, kT5Heads);
  const Value q = builder->Linear(h, kT5Width, /*bias=*/false);
  const Value k = builder->Linear(h, kT5Width, /*bias=*/false);
  const Value v = builder->Linear(h, kT5Width, /*bias=*/false);
  x = builder->Add(x, builder->Linear(builder->Attention(q, k, v), kT5Width, /*bias=*/false));
  builder->BeginLayer(name + ".feed_forward", FROZEN);
  h = builder->Linear(builder->RmsNorm(x), 2 * kT5Hidden, /*bias=*/false);
  return builder->Add(x, builder->Linear(builder->Gated(h), kT5Width, /*bias=*/false));
}

}  // namespace

ComponentWork ClipText(const ClipTextOptions& options) {
  ComponentBuilder builder("text_encoder", /*is_backbone=*/false);
  const Value ids = builder.Input("ids", {kClipLength}, 4);
  builder.BeginLayer("text_model.embeddings", FROZEN);
  Value x = builder.Embedding(ids, kClipVocabulary, kClipLength, options.width);
  for (int i = 0; i < options.num_layers; ++i) {
    x = AddClipLayer(&builder, absl::StrCat("text_model.encoder.layers.", i), x, options.hidden);
  }
  builder.BeginLayer("text_model.final_layer_norm", FROZEN);
  x = builder.LayerNorm(x);
  if (options.pooled) x = builder.Slice(x, {options.width});
  builder.MarkOutput(x, options.pooled ? "pooled" : "last_hidden_state");
  return builder.Build();
}

ComponentWork T5XxlEncoder(int64_t length) {
  ComponentBuilder builder("t5_encoder", /*is_backbone=*/false);
  const Value ids = builder.Input("ids", {length}, 4);
  builder.BeginLayer("embeddings", FROZEN);
  Value x = builder.Embedding(ids, kT5Vocabulary, 0, kT5Width);
  for (int i = 0; i < kT5Layers; ++i) {
    x = AddT5Layer(&builder, absl::StrCat("layers.", i), x, /*first=*/i == 0);
  }
  builder.BeginLayer("final_layer_norm", FROZEN);
  x = builder.RmsNorm(x);
  builder.MarkOutput(x, "last_hidden_state");
  return builder.Build();
}

}  // namespace dpipe::roofline

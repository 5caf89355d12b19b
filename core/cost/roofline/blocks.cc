#include "core/cost/roofline/blocks.h"

#include "absl/strings/str_cat.h"

namespace dpipe::roofline {
namespace {

constexpr int kFeedForwardFactor = 4;  // hidden width / width

Value AddBasicBlock(ComponentBuilder* builder, const std::string& name, Value x,
                    const Value& context, int64_t head_size, LayerKind kind) {
  builder->BeginLayer(name + ".attn1", kind);
  Value h = builder->LayerNorm(x);
  x = builder->Add(AddAttention(builder, h, h, /*qkv_bias=*/false, head_size), x);

  builder->BeginLayer(name + ".attn2", kind);
  h = builder->LayerNorm(x);
  x = builder->Add(AddAttention(builder, h, context, /*qkv_bias=*/false, head_size), x);

  builder->BeginLayer(name + ".ff", kind);
  h = builder->Linear(builder->LayerNorm(x), 2 * kFeedForwardFactor * x.channels());
  return builder->Add(builder->Linear(builder->Gated(h), x.channels()), x);
}

}  // namespace

Value AddResnet(ComponentBuilder* builder, const std::string& name, Value x,
                const ResnetOptions& options) {
  builder->BeginLayer(name + ".conv1", options.kind);
  if (options.skip.has_value()) x = builder->Concat(x, *options.skip);
  Value h = builder->Conv(builder->GroupNorm(x), options.out_channels);
  if (options.time.has_value()) {
    const Value t = builder->Linear(*options.time, options.out_channels);
    h = builder->Add(h, t);
  }
  Value shortcut = x;
  if (x.channels() != options.out_channels) {
    builder->BeginLayer(name + ".conv_shortcut", options.kind);
    shortcut = builder->Conv(x, options.out_channels, /*kernel=*/1);
  }
  builder->BeginLayer(name + ".conv2", options.kind);
  h = builder->Conv(builder->GroupNorm(h), options.out_channels);
  return builder->Add(h, shortcut);
}

Value AddAttention(ComponentBuilder* builder, const Value& x, const Value& context, bool qkv_bias,
                   int64_t head_size) {
  const int64_t width = x.channels();
  const Value q = builder->Linear(x, width, qkv_bias);
  const Value k = builder->Linear(context, width, qkv_bias);
  const Value v = builder->Linear(context, width, qkv_bias);
  return builder->Linear(builder->Attention(q, k, v, head_size), width);
}

Value AddTransformer(ComponentBuilder* builder, const std::string& name, const Value& x,
                     const Value& context, int num_blocks, int64_t head_size, LayerKind kind) {
  builder->BeginLayer(name + ".proj_in", kind);
  Value h = builder->Linear(builder->GroupNorm(x), x.channels());
  for (int i = 0; i < num_blocks; ++i) {
    h = AddBasicBlock(builder, absl::StrCat(name, ".transformer_blocks.", i), h, context, head_size,
                      kind);
  }
  builder->BeginLayer(name + ".proj_out", kind);
  return builder->Add(builder->Linear(h, x.channels()), x);
}

Value AddDownsample(ComponentBuilder* builder, const std::string& name, const Value& x,
                    LayerKind kind) {
  builder->BeginLayer(name, kind);
  return builder->Conv(x, x.channels(), /*kernel=*/3, /*stride=*/2);
}

Value AddUpsample(ComponentBuilder* builder, const std::string& name, const Value& x,
                  LayerKind kind) {
  builder->BeginLayer(name, kind);
  return builder->Conv(builder->Upsample2x(x), x.channels());
}

}  // namespace dpipe::roofline

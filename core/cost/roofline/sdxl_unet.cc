#include "core/cost/roofline/sdxl_unet.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/cost/roofline/component_builder.h"

namespace dpipe::roofline {
namespace {

// By level, from the highest resolution down.
constexpr int kLevels = 3;
constexpr int64_t kChannels[kLevels] = {320, 640, 1280};
constexpr int kTransformerBlocks[kLevels] = {0, 2, 10};  // the middle has the last level's

constexpr int kResnetsPerLevel = 2;  // one more on the way up
constexpr int64_t kLatentChannels = 4;
constexpr int64_t kTokens = 77;
constexpr int64_t kTextWidths[] = {768, 1280};  // of the two text encoders
constexpr int64_t kPooledWidth = 1280;
constexpr int64_t kSizesWidth = 6 * 256;  // six sizes of 256 sinusoids each
constexpr int64_t kTimeWidth = 4 * kChannels[0];
constexpr int kFeedForwardFactor = 4;  // hidden width / width

class SdxlUNetBuilder {
 public:
  SdxlUNetBuilder(const Value& context, ComponentBuilder* builder)
      : context_(context), builder_(*builder) {}

  Value Build(const Value& noisy, const Value& timesteps, const Value& pooled) {
    AddTime(timesteps, pooled);
    builder_.BeginLayer("conv_in", TRAINABLE);
    Value x = builder_.Conv(noisy, kChannels[0]);
    skips_ = {x};
    for (int level = 0; level < kLevels; ++level) x = AddDown(level, x);
    x = AddResnet("mid_block.resnets.0", kLevels - 1, x);
    x = AddTransformer("mid_block.attentions.0", kLevels - 1, x);
    x = AddResnet("mid_block.resnets.1", kLevels - 1, x);
    for (int level = kLevels - 1; level >= 0; --level) x = AddUp(level, x);
    DPIPE_CHECK(skips_.empty());
    builder_.BeginLayer("conv_out", TRAINABLE);
    return builder_.Conv(builder_.GroupNorm(x), kLatentChannels);
  }

 private:
  Value Embed(const Value& x) {
    return builder_.Linear(builder_.Activation(builder_.Linear(x, kTimeWidth)), kTimeWidth);
  }

  void AddTime(const Value& timesteps, const Value& pooled) {
    builder_.BeginLayer("time_embedding", TRAINABLE);
    const Value time = Embed(builder_.Elementwise({timesteps}, {kChannels[0]}, 2));
    const Value sizes = builder_.Elementwise({timesteps}, {kSizesWidth}, 2);
    const Value added = Embed(builder_.Concat(pooled, sizes));
    time_ = builder_.Activation(builder_.Add(time, added));
  }

  // Layers: conv1, conv_shortcut (if channels change), conv2. `skip` is joined to x first.
  Value AddResnet(const std::string& name, int level, Value x, const Value* skip = nullptr) {
    const int64_t out = kChannels[level];
    builder_.BeginLayer(name + ".conv1", TRAINABLE);
    if (skip != nullptr) x = builder_.Concat(x, *skip);
    Value h = builder_.Conv(builder_.GroupNorm(x), out);
    h = builder_.Add(h, builder_.Linear(time_, out));
    Value shortcut = x;
    if (x.channels() != out) {
      builder_.BeginLayer(name + ".conv_shortcut", TRAINABLE);
      shortcut = builder_.Linear(x, out);  // a 1x1 convolution
    }
    builder_.BeginLayer(name + ".conv2", TRAINABLE);
    return builder_.Add(builder_.Conv(builder_.GroupNorm(h), out), shortcut);
  }

  void AddBasicBlock(const std::string& name, Value* x) {
    builder_.BeginLayer(name + ".attn1", TRAINABLE);
    Value h = builder_.LayerNorm(*x);
    *x = builder_.Add(builder_.ProjectedAttention(h, h, /*qkv_bias=*/false), *x);
    builder_.BeginLayer(name + ".attn2", TRAINABLE);
    h = builder_.LayerNorm(*x);
    *x = builder_.Add(builder_.ProjectedAttention(h, context_, /*qkv_bias=*/false), *x);
    builder_.BeginLayer(name + ".ff", TRAINABLE);
    h = builder_.Linear(builder_.LayerNorm(*x), 2 * kFeedForwardFactor * x->channels());
    *x = builder_.Add(builder_.Linear(builder_.Gated(h), x->channels()), *x);
  }

  Value AddTransformer(const std::string& name, int level, const Value& x) {
    if (kTransformerBlocks[level] == 0) return x;
    builder_.BeginLayer(name + ".proj_in", TRAINABLE);
    Value h = builder_.Linear(builder_.GroupNorm(x), x.channels());
    for (int i = 0; i < kTransformerBlocks[level]; ++i) {
      AddBasicBlock(absl::StrCat(name, ".transformer_blocks.", i), &h);
    }
    builder_.BeginLayer(name + ".proj_out", TRAINABLE);
    return builder_.Add(builder_.Linear(h, x.channels()), x);
  }

  Value AddDown(int level, Value x) {
    const std::string block = absl::StrCat("down_blocks.", level);
    for (int i = 0; i < kResnetsPerLevel; ++i) {
      x = AddResnet(absl::StrCat(block, ".resnets.", i), level, x);
      x = AddTransformer(absl::StrCat(block, ".attentions.", i), level, x);
      skips_.push_back(x);
    }
    if (level + 1 == kLevels) return x;
    builder_.BeginLayer(block + ".downsamplers.0.conv", TRAINABLE);
    x = builder_.Conv(x, x.channels(), /*stride=*/2);
    skips_.push_back(x);
    return x;
  }

  Value AddUp(int level, Value x) {
    const std::string block = absl::StrCat("up_blocks.", kLevels - 1 - level);
    for (int i = 0; i <= kResnetsPerLevel; ++i) {
      x = AddResnet(absl::StrCat(block, ".resnets.", i), level, x, &skips_.back());
      skips_.pop_back();
      x = AddTransformer(absl::StrCat(block, ".attentions.", i), level, x);
    }
    if (level == 0) return x;
    builder_.BeginLayer(block + ".upsamplers.0.conv", TRAINABLE);
    return builder_.Conv(builder_.Upsample2x(x), x.channels());
  }

  const Value context_;
  ComponentBuilder& builder_;
  Value time_;
  std::vector<Value> skips_;
};

}  // namespace

ComponentWork SdxlUNet(int64_t latent_size) {
  ComponentBuilder builder("unet", /*is_backbone=*/true);
  const std::vector<int64_t> image{latent_size, latent_size, kLatentChannels};
  const Value latents = builder.InputFrom("latents", image, 4, "vae_encoder", "latents");
  const Value noise = builder.Input("noise", image, 4);
  const Value timesteps = builder.Input("timesteps", {}, 4);
  const Value first = builder.InputFrom("context", {kTokens, kTextWidths[0]}, 2, "text_encoder",
                                        "last_hidden_state");
  const Value second = builder.InputFrom("context_2", {kTokens, kTextWidths[1]}, 2,
                                         "text_encoder_2", "penultimate_hidden_state");
  const Value pooled = builder.InputFrom("pooled", {kPooledWidth}, 2, "text_encoder_2", "pooled");
  builder.BeginLayer("add_noise", FROZEN);
  const Value noisy = builder.Elementwise({latents, noise, timesteps}, image, 2);
  // The contexts are joined once, at the start: a frozen operation on frozen outputs.
  const Value context =
      builder.Elementwise({first, second}, {kTokens, kTextWidths[0] + kTextWidths[1]}, 2);
  const Value prediction = SdxlUNetBuilder(context, &builder).Build(noisy, timesteps, pooled);
  builder.BeginLayer("loss", TRAINABLE);
  builder.MarkOutput(builder.Loss(prediction, {latents, noise, timesteps}), "loss", 4);
  return builder.Build();
}

}  // namespace dpipe::roofline

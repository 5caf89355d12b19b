#include "core/cost/roofline/unet.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe::roofline {

UNetArchitecture StableDiffusionV21UNet() {
  UNetArchitecture arch;
  arch.channels = {320, 640, 1280, 1280};
  arch.transformer_blocks = {1, 1, 1, 0};
  arch.context_width = 1024;
  return arch;
}

UNetArchitecture StableDiffusionV15UNet() {
  UNetArchitecture arch = StableDiffusionV21UNet();
  arch.num_heads = 8;
  arch.context_width = 768;
  return arch;
}

UNetArchitecture SdxlUNet() {
  UNetArchitecture arch;
  arch.channels = {320, 640, 1280};
  arch.transformer_blocks = {0, 2, 10};
  arch.middle_transformer_blocks = 10;
  arch.context_width = 2048;
  arch.added_width = 1280 + 6 * 256;
  return arch;
}

Value UNetParts::Time(const Value& timesteps, const Value* added) {
  const int64_t width = 4 * arch_.channels[0];
  builder_->BeginLayer(prefix_ + "time_embedding", kind_);
  Value t = builder_->Elementwise({timesteps}, {arch_.channels[0]}, 2);
  t = builder_->Activation(builder_->Linear(t, width));
  t = builder_->Linear(t, width);
  if (added != nullptr) {
    const Value sizes =
        builder_->Elementwise({timesteps}, {arch_.added_width - added->channels()}, 2);
    const Value joined = builder_->Concat(*added, sizes);
    const Value a = builder_->Activation(builder_->Linear(joined, width));
    t = builder_->Add(t, builder_->Linear(a, width));
  }
  return builder_->Activation(t);
}

Value UNetParts::Resnet(const std::string& name, int level, const Value& x, const Value& time,
                        const Value* skip) {
  ResnetOptions options;
  options.out_channels = arch_.channels[level];
  options.kind = kind_;
  options.time = time;
  if (skip != nullptr) options.skip = *skip;
  return AddResnet(builder_, prefix_ + name, x, options);
}

std::vector<Value> UNetParts::Down(const Value& x, const Value& time, const Value& context,
                                   const Value* hint) {
  builder_->BeginLayer(prefix_ + "conv_in", kind_);
  Value h = builder_->Conv(x, arch_.channels[0]);
  if (hint != nullptr) h = builder_->Add(h, *hint);
  std::vector<Value> skips{h};
  const int levels = static_cast<int>(arch_.channels.size());
  for (int level = 0; level < levels; ++level) {
    const std::string block = absl::StrCat("down_blocks.", level);
    for (int i = 0; i < arch_.layers_per_block; ++i) {
      h = Resnet(absl::StrCat(block, ".resnets.", i), level, h, time, nullptr);
      if (arch_.transformer_blocks[level] > 0) {
        h = AddTransformer(builder_, absl::StrCat(prefix_, block, ".attentions.", i), h, context,
                           arch_.transformer_blocks[level], HeadSize(level), kind_);
      }
      skips.push_back(h);
    }
    if (level + 1 == levels) break;
    h = AddDownsample(builder_, prefix_ + block + ".downsamplers.0.conv", h, kind_);
    skips.push_back(h);
  }
  return skips;
}

Value UNetParts::Middle(const Value& x, const Value& time, const Value& context) {
  const int level = static_cast<int>(arch_.channels.size()) - 1;
  Value h = Resnet("mid_block.resnets.0", level, x, time, nullptr);
  h = AddTransformer(builder_, prefix_ + "mid_block.attentions.0", h, context,
                     arch_.middle_transformer_blocks, HeadSize(level), kind_);
  return Resnet("mid_block.resnets.1", level, h, time, nullptr);
}

Value UNetParts::Up(Value x, std::vector<Value> skips, const Value& time, const Value& context) {
  const int levels = static_cast<int>(arch_.channels.size());
  for (int level = levels - 1; level >= 0; --level) {
    const std::string block = absl::StrCat("up_blocks.", levels - 1 - level);
    for (int i = 0; i <= arch_.layers_per_block; ++i) {
      x = Resnet(absl::StrCat(block, ".resnets.", i), level, x, time, &skips.back());
      skips.pop_back();
      if (arch_.transformer_blocks[level] > 0) {
        x = AddTransformer(builder_, absl::StrCat(prefix_, block, ".attentions.", i), x, context,
                           arch_.transformer_blocks[level], HeadSize(level), kind_);
      }
    }
    if (level > 0) {
      x = AddUpsample(builder_, prefix_ + block + ".upsamplers.0.conv", x, kind_);
    }
  }
  DPIPE_CHECK(skips.empty());
  builder_->BeginLayer(prefix_ + "conv_out", kind_);
  return builder_->Conv(builder_->GroupNorm(x), arch_.out_channels);
}

ComponentWork UNetForTraining(const UNetArchitecture& architecture,
                              const UNetTrainingOptions& options) {
  ComponentBuilder builder("unet", /*is_backbone=*/true);
  const std::vector<int64_t> image{options.latent_size, options.latent_size,
                                   architecture.in_channels};
  const Value latents =
      builder.InputFrom("latents", image, 4, options.latents_component, "latents");
  const Value noise = builder.Input("noise", image, 4);
  const Value timesteps = builder.Input("timesteps", {}, 4);
  std::vector<Value> contexts;
  for (size_t i = 0; i < options.contexts.size(); ++i) {
    const auto& from = options.contexts[i];
    contexts.push_back(builder.InputFrom(i == 0 ? "context" : absl::StrCat("context_", i + 1),
                                         {architecture.context_length, from.width}, 2,
                                         from.component, from.output));
  }
  Value pooled;
  const bool added = architecture.added_width > 0;
  if (added) {
    pooled = builder.InputFrom("pooled", {options.pooled.width}, 2, options.pooled.component,
                               options.pooled.output);
  }
  builder.BeginLayer("add_noise", FROZEN);
  Value noisy = builder.Elementwise({latents, noise, timesteps}, image, 2);
  // Several contexts are concatenated once, at the start: a frozen operation on frozen outputs.
  Value context = contexts[0];
  for (size_t i = 1; i < contexts.size(); ++i) {
    const int64_t width = context.channels() + contexts[i].channels();
    context = builder.Elementwise({context, contexts[i]}, {architecture.context_length, width}, 2);
  }
  UNetParts parts(architecture, TRAINABLE, "", &builder);
  const Value time = parts.Time(timesteps, added ? &pooled : nullptr);
  if (options.self_conditioning) {
    // The previous estimate arrives as additional channels of the first convolution's input. Its
    // size between stages is self_conditioning_bytes_per_sample.
    noisy.dims.back() *= 2;
  }
  std::vector<Value> skips = parts.Down(noisy, time, context);
  const Value middle = parts.Middle(skips.back(), time, context);
  const Value prediction = parts.Up(middle, std::move(skips), time, context);
  builder.BeginLayer("loss", TRAINABLE);
  builder.MarkOutput(builder.Loss(prediction, {latents, noise, timesteps}), "loss", 4);
  ComponentWork work = builder.Build();
  if (options.self_conditioning) {
    work.profile.set_self_conditioning_bytes_per_sample(prediction.elements() * 2);
  }
  return work;
}

}  // namespace dpipe::roofline

#include "core/cost/roofline/vae_encoder.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/cost/roofline/blocks.h"

namespace dpipe::roofline {
namespace {

Value AddFrozenResnet(ComponentBuilder* builder, const std::string& name, const Value& x,
                      int64_t out_channels) {
  ResnetOptions options;
  options.out_channels = out_channels;
  options.kind = FROZEN;
  return AddResnet(builder, name, x, options);
}

Value AddMiddle(ComponentBuilder* builder, Value x) {
  const std::string name = "encoder.mid_block";
  x = AddFrozenResnet(builder, name + ".resnets.0", x, x.channels());
  builder->BeginLayer(name + ".attentions.0", FROZEN);
  Value h = builder->GroupNorm(x);
  h = AddAttention(builder, h, h, /*qkv_bias=*/true);
  x = builder->Add(h, x);
  return AddFrozenResnet(builder, name + ".resnets.1", x, x.channels());
}

}  // namespace

ComponentWork VaeEncoder(const VaeEncoderOptions& options) {
  ComponentBuilder builder("vae_encoder", /*is_backbone=*/false);
  const int levels = static_cast<int>(options.channels.size());
  const int64_t size = options.image_size;
  const int64_t latent = size >> (levels - 1);
  const Value pixels = builder.Input("pixels", {size, size, 3}, 4);
  const Value noise = builder.Input("vae_noise", {latent, latent, options.latent_channels}, 4);
  builder.BeginLayer("encoder.conv_in", FROZEN);
  Value x = builder.Conv(builder.Elementwise({pixels}, pixels.dims, 2), options.channels[0]);
  for (int level = 0; level < levels; ++level) {
    const std::string block = absl::StrCat("encoder.down_blocks.", level);
    for (int i = 0; i < options.layers_per_block; ++i) {
      x = AddFrozenResnet(&builder, absl::StrCat(block, ".resnets.", i), x,
                          options.channels[level]);
    }
    if (level + 1 == levels) break;
    x = AddDownsample(&builder, block + ".downsamplers.0.conv", x, FROZEN);
  }
  x = AddMiddle(&builder, x);
  builder.BeginLayer("encoder.conv_out", FROZEN);
  x = builder.Conv(builder.GroupNorm(x), 2 * options.latent_channels);
  if (options.quant_conv) x = builder.Conv(x, 2 * options.latent_channels, /*kernel=*/1);
  x = builder.Elementwise({x, noise}, noise.dims, 4);
  builder.MarkOutput(x, "latents", 4);
  return builder.Build();
}

}  // namespace dpipe::roofline

#include "core/cost/roofline/controlnet.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace dpipe::roofline {
namespace {

constexpr int64_t kPixelsPerLatent = 8;
const char kLocked[] = "locked_encoder";

struct DiffusionInputs {
  Value latents, noise, timesteps, context, noisy;
};

DiffusionInputs AddInputs(ComponentBuilder* builder, const UNetArchitecture& architecture,
                          int64_t latent_size) {
  const std::vector<int64_t> image{latent_size, latent_size, architecture.in_channels};
  DiffusionInputs in;
  in.latents = builder->InputFrom("latents", image, 4, "vae_encoder", "latents");
  in.noise = builder->Input("noise", image, 4);
  in.timesteps = builder->Input("timesteps", {}, 4);
  in.context =
      builder->InputFrom("context", {architecture.context_length, architecture.context_width}, 2,
                         "text_encoder", "last_hidden_state");
  builder->BeginLayer("add_noise", FROZEN);
  in.noisy = builder->Elementwise({in.latents, in.noise, in.timesteps}, image, 2);
  return in;
}

// [512, 512, 3] -> [64, 64, 320]; each layer is a convolution and SiLU.
Value AddConditionEmbedding(ComponentBuilder* builder, Value x, int64_t out) {
  const struct {
    const char* name;
    int64_t channels;
    int stride;
  } convolutions[] = {{"conv_in", 16, 1},  {"blocks.0", 16, 1}, {"blocks.1", 32, 2},
                      {"blocks.2", 32, 1}, {"blocks.3", 96, 2}, {"blocks.4", 96, 1},
                      {"blocks.5", 256, 2}};
  const std::string prefix = "controlnet_cond_embedding.";
  for (const auto& c : convolutions) {
    builder->BeginLayer(prefix + c.name, TRAINABLE);
    if (c.name == std::string("conv_in")) x = builder->Elementwise({x}, x.dims, 2);
    x = builder->Activation(builder->Conv(x, c.channels, /*kernel=*/3, c.stride));
  }
  builder->BeginLayer(prefix + "conv_out", TRAINABLE);
  return builder->Conv(x, out);
}

// zero_conv(x) + locked.
Value AddZeroConvolution(ComponentBuilder* builder, const std::string& name, const Value& x,
                         const std::string& locked_output) {
  const Value locked = builder->InputFrom(locked_output, x.dims, 2, kLocked, locked_output);
  builder->BeginLayer(name, TRAINABLE);
  return builder->Add(builder->Conv(x, x.channels(), /*kernel=*/1), locked);
}

}  // namespace

ComponentWork LockedEncoder(const UNetArchitecture& architecture, int64_t latent_size) {
  ComponentBuilder builder(kLocked, /*is_backbone=*/false);
  const DiffusionInputs in = AddInputs(&builder, architecture, latent_size);
  UNetParts parts(architecture, FROZEN, "", &builder);
  const Value time = parts.Time(in.timesteps, nullptr);
  const std::vector<Value> skips = parts.Down(in.noisy, time, in.context);
  const Value middle = parts.Middle(skips.back(), time, in.context);
  builder.MarkOutput(time, "time");
  for (size_t i = 0; i < skips.size(); ++i) builder.MarkOutput(skips[i], absl::StrCat("skip_", i));
  builder.MarkOutput(middle, "middle");
  return builder.Build();
}

ComponentWork ControlNetForTraining(const UNetArchitecture& architecture, int64_t latent_size) {
  ComponentBuilder builder("controlnet", /*is_backbone=*/true);
  const int64_t pixels = latent_size * kPixelsPerLatent;
  const Value condition = builder.Input("condition", {pixels, pixels, 3}, 4);
  const DiffusionInputs in = AddInputs(&builder, architecture, latent_size);
  UNetParts copy(architecture, TRAINABLE, "", &builder);
  const Value time = copy.Time(in.timesteps, nullptr);
  const Value hint = AddConditionEmbedding(&builder, condition, architecture.channels[0]);
  std::vector<Value> skips = copy.Down(in.noisy, time, in.context, &hint);
  const Value middle = copy.Middle(skips.back(), time, in.context);
  for (size_t i = 0; i < skips.size(); ++i) {
    skips[i] = AddZeroConvolution(&builder, absl::StrCat("controlnet_down_blocks.", i), skips[i],
                                  absl::StrCat("skip_", i));
  }
  const Value x = AddZeroConvolution(&builder, "controlnet_mid_block", middle, "middle");
  const Value locked_time =
      builder.InputFrom("time", {4 * architecture.channels[0]}, 2, kLocked, "time");
  UNetParts decoder(architecture, FROZEN_WITH_GRADIENT, "unet.", &builder);
  const Value prediction = decoder.Up(x, std::move(skips), locked_time, in.context);
  builder.BeginLayer("loss", FROZEN_WITH_GRADIENT);
  builder.MarkOutput(builder.Loss(prediction, {in.latents, in.noise, in.timesteps}), "loss", 4);
  return builder.Build();
}

}  // namespace dpipe::roofline

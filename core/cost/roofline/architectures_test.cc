// Totals against published or independently counted figures, and small cases by hand.
#include <cmath>
#include <functional>

#include "core/cost/roofline/controlnet.h"
#include "core/cost/roofline/guided_unet.h"
#include "core/cost/roofline/mmdit.h"
#include "core/cost/roofline/text_encoders.h"
#include "core/cost/roofline/unet.h"
#include "core/cost/roofline/vae_encoder.h"
#include "gtest/gtest.h"

namespace dpipe::roofline {
namespace {

double GigaMacs(const ComponentWork& component) { return ForwardMacs(component) / 1e9; }

ComponentWork StableDiffusion(int64_t latent_size, int64_t context_width) {
  UNetTrainingOptions options;
  options.latent_size = latent_size;
  options.contexts = {{"text_encoder", "last_hidden_state", context_width}};
  return UNetForTraining(context_width == 768 ? StableDiffusionV15UNet() : StableDiffusionV21UNet(),
                         options);
}

ComponentWork Vae(int64_t image_size) {
  VaeEncoderOptions options;
  options.image_size = image_size;
  return VaeEncoder(options);
}

ClipTextOptions Clip(int64_t width, int num_layers) {
  ClipTextOptions options;
  options.width = width;
  options.hidden = 4 * width;
  options.num_layers = num_layers;
  return options;
}

int64_t KindCount(const ComponentWork& component, LayerKind kind) {
  int64_t bytes = 0;
  for (const LayerProfile& layer : component.profile.layers()) {
    if (layer.kind() == kind) bytes += layer.parameter_bytes();
  }
  return bytes / 4;
}

TEST(ArchitecturesTest, ParameterCounts) {
  EXPECT_EQ(ParameterCount(StableDiffusion(64, 1024)), 865910724);
  EXPECT_EQ(ParameterCount(StableDiffusion(64, 768)), 859520964);
  EXPECT_EQ(ParameterCount(Vae(512)), 34163664);  // encoder and quant_conv
  EXPECT_EQ(ParameterCount(ClipText(Clip(768, 12))), 123060480);
  EXPECT_EQ(ParameterCount(ClipText(Clip(1024, 23))), 340387840);
  ClipTextOptions big = Clip(1280, 32);
  big.pooled = big.projection = true;
  EXPECT_EQ(ParameterCount(ClipText(big)), 694659840);
  EXPECT_EQ(ParameterCount(T5XxlEncoder(512)), 4762310656);
  EXPECT_EQ(ParameterCount(Mmdit({})), 11901408320);
  UNetTrainingOptions sdxl;
  sdxl.latent_size = 128;
  sdxl.contexts = {{"a", "b", 768}, {"c", "d", 1280}};
  sdxl.pooled = {"c", "pooled", 1280};
  EXPECT_EQ(ParameterCount(UNetForTraining(SdxlUNet(), sdxl)), 2567463684);
}

// 296 M, 312 M and 552 M parameters: Dhariwal and Nichol (2021).
TEST(ArchitecturesTest, GuidedDiffusionParameterCounts) {
  GuidedUNetOptions options;
  options.class_labels = true;
  EXPECT_NEAR(ParameterCount(GuidedUNet(options)) / 1e6, 296, 0.5);
  options.image_size = 256;
  options.multipliers = {1, 1, 2, 2, 4, 4};
  options.resnets_per_level = 2;
  options.conditioned = true;
  EXPECT_NEAR(ParameterCount(GuidedUNet(options)) / 1e6, 312, 0.5);
  options.channels = 256;
  options.class_labels = options.conditioned = false;
  EXPECT_NEAR(ParameterCount(GuidedUNet(options)) / 1e6, 552.8, 0.5);
}

// The totals in the reference models' description, per image.
TEST(ArchitecturesTest, MultiplyAdds) {
  EXPECT_NEAR(GigaMacs(StableDiffusion(64, 1024)), 402, 4);
  EXPECT_NEAR(GigaMacs(StableDiffusion(32, 1024)), 90.5, 0.9);
  EXPECT_NEAR(GigaMacs(Vae(512)), 558, 5);
  EXPECT_NEAR(GigaMacs(Vae(256)), 136, 1);
  EXPECT_EQ(std::round(GigaMacs(ClipText(Clip(1024, 23)))), 23);  // 22.6, stated as 23
}

// Frozen work is about 48 % of the trainable part's forward and backward work.
TEST(ArchitecturesTest, FrozenShare) {
  const double frozen = GigaMacs(Vae(512)) + GigaMacs(ClipText(Clip(1024, 23)));
  EXPECT_NEAR(frozen / (3 * GigaMacs(StableDiffusion(64, 1024))), 0.48, 0.005);
}

TEST(ArchitecturesTest, StableDiffusionIsFine) {
  EXPECT_EQ(StableDiffusion(64, 1024).profile.layers_size(), 149);
}

TEST(ArchitecturesTest, ControlNet) {
  const UNetArchitecture unet = StableDiffusionV15UNet();
  const ComponentWork controlnet = ControlNetForTraining(unet, 64);
  EXPECT_EQ(KindCount(controlnet, TRAINABLE), 361279120);
  EXPECT_NEAR(KindCount(controlnet, FROZEN_WITH_GRADIENT) / 1e6, 511, 0.5);
  const ComponentWork locked = LockedEncoder(unet, 64);
  // Encoder, middle and decoder are the whole U-Net.
  EXPECT_EQ(ParameterCount(locked) + KindCount(controlnet, FROZEN_WITH_GRADIENT), 859520964);
  int outputs = 0;
  for (const ValueProfile& value : locked.profile.values()) outputs += value.is_output();
  EXPECT_EQ(outputs, 12 + 2);
}

// The loss's gradient passes every layer of the decoder and reaches no layer before the trainable
// copy.
TEST(ArchitecturesTest, ControlNetGradientsPassTheLockedDecoder) {
  const ComponentWork controlnet = ControlNetForTraining(StableDiffusionV15UNet(), 64);
  for (int l = 0; l < controlnet.profile.layers_size(); ++l) {
    const LayerProfile& layer = controlnet.profile.layers(l);
    int input_grads = 0, weight_grads = 0;
    for (const OpWork& op : controlnet.ops[l]) {
      input_grads += op.input_grad.kernels;
      weight_grads += op.weight_grad.kernels;
    }
    if (layer.kind() == FROZEN_WITH_GRADIENT) {
      EXPECT_GT(input_grads, 0) << layer.name();
      EXPECT_EQ(weight_grads, 0) << layer.name();
    } else if (layer.kind() == FROZEN) {
      EXPECT_EQ(input_grads + weight_grads, 0) << layer.name();
    } else {
      EXPECT_GT(weight_grads, 0) << layer.name();
    }
  }
}

// A convolution and a sum, all numbers by hand.
TEST(ComponentBuilderTest, Convolution) {
  ComponentBuilder builder("c", true);
  const auto x = builder.Input("x", {4, 6, 8}, 2);
  builder.BeginLayer("a", TRAINABLE);
  const auto h = builder.Conv(x, 16, 3, 2);  // [2, 3, 16]
  builder.BeginLayer("b", FROZEN_WITH_GRADIENT);
  builder.MarkOutput(builder.Add(builder.Conv(h, 16), h), "y");
  const ComponentWork work = builder.Build();
  ASSERT_EQ(work.ops[0].size(), 1u);
  const OpWork& a = work.ops[0][0];
  EXPECT_EQ(a.forward.macs, 2 * 3 * 16 * 8 * 9);
  EXPECT_EQ(a.forward.bytes, 2 * (4 * 6 * 8 + 2 * 3 * 16));
  EXPECT_EQ(a.forward.fixed_bytes, 2 * 16 * 8 * 9);
  EXPECT_EQ(a.input_grad.kernels, 0);  // nothing upstream learns
  EXPECT_EQ(a.weight_grad.macs, a.forward.macs);
  EXPECT_EQ(a.weight_grad.fixed_bytes, 8 * 16 * 8 * 9);
  const OpWork& b = work.ops[1][0];
  EXPECT_EQ(b.input_grad.macs, 2 * 3 * 16 * 16 * 9);
  EXPECT_EQ(b.weight_grad.kernels, 0);
  EXPECT_EQ(work.profile.layers(0).parameter_bytes(), 4 * (16 * 8 * 9 + 16));
  EXPECT_EQ(work.profile.layers(0).saved_bytes_per_sample(), 2 * 4 * 6 * 8);
  EXPECT_EQ(work.profile.layers(1).saved_bytes_per_sample(), 0);
  EXPECT_EQ(work.profile.layers(1).trainable_parameter_bytes(), 0);
  ASSERT_EQ(work.profile.values_size(), 3);  // x, h, y
  EXPECT_EQ(work.profile.values(1).bytes_per_sample(), 2 * 2 * 3 * 16);
  EXPECT_TRUE(work.profile.values(1).has_gradient());
  EXPECT_FALSE(work.profile.values(0).has_gradient());
}

TEST(ComponentBuilderTest, Attention) {
  ComponentBuilder builder("c", true);
  const auto x = builder.Input("x", {10, 8}, 2);
  const auto context = builder.Input("context", {3, 8}, 2);
  builder.BeginLayer("a", TRAINABLE);
  const auto q = builder.Linear(x, 8, false);
  builder.Attention(q, context, context);
  const auto k = builder.Linear(context, 8, false);
  builder.MarkOutput(builder.Attention(q, k, k), "y");
  const ComponentWork work = builder.Build();
  const OpWork& to_queries = work.ops[0][1];
  EXPECT_EQ(to_queries.forward.macs, 2 * 10 * 3 * 8);
  EXPECT_EQ(to_queries.input_grad.macs, 3 * 10 * 3 * 8);
  EXPECT_EQ(work.ops[0][3].input_grad.macs, 5 * 10 * 3 * 8);
  EXPECT_EQ(work.ops[0][3].forward.bytes, 2 * (10 + 3 + 3 + 10) * 8);
}

}  // namespace
}  // namespace dpipe::roofline

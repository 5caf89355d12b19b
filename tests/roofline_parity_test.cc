// Compares the counted architectures of core/cost/roofline with the programs of models/, built from
// the public checkpoints' configurations and from small ones. Layers, kinds, parameters,
// multiply-adds and values must be the same.
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/cost/roofline/text_encoders.h"
#include "core/cost/roofline/unet.h"
#include "core/cost/roofline/vae_encoder.h"
#include "core/nn/model.h"
#include "core/profile/describe.h"
#include "gtest/gtest.h"
#include "models/clip_text/clip_text.h"
#include "models/diffusion/noise_schedule.h"
#include "models/testdata/parameter_list.h"
#include "models/unet/unet.h"
#include "models/vae/vae.h"

namespace dpipe {
namespace {

using models::ReadTestdata;

// The number of occurrences of each value (producer, consumers, bytes, has a gradient, is an
// output).
using Values = std::map<std::tuple<int, std::vector<int>, int64_t, bool, bool>, int>;

Values ValuesOf(const ComponentProfile& component) {
  Values values;
  for (const ValueProfile& v : component.values()) {
    const std::vector<int> consumers(v.consumer_layers().begin(), v.consumer_layers().end());
    ++values[{v.producer_layer(), consumers, v.bytes_per_sample(), v.has_gradient(),
              v.is_output()}];
  }
  return values;
}

void ExpectSame(const roofline::ComponentWork& counted, nn::Program program) {
  std::vector<int64_t> macs;
  for (int l = 0; l < program.num_layers(); ++l) macs.push_back(program.MultiplyAdds({l, l + 1}));
  const bool is_backbone = counted.profile.is_backbone();
  const nn::Component component{counted.profile.name(), is_backbone, std::move(program), {}};
  const ComponentProfile built = DescribeComponent(component, DType::kBf16);
  ASSERT_EQ(counted.profile.layers_size(), built.layers_size());
  for (int l = 0; l < built.layers_size(); ++l) {
    const LayerProfile& a = counted.profile.layers(l);
    const LayerProfile& b = built.layers(l);
    EXPECT_EQ(a.name(), b.name());
    EXPECT_EQ(a.kind(), b.kind()) << a.name();
    EXPECT_EQ(a.parameter_bytes(), b.parameter_bytes()) << a.name();
    EXPECT_EQ(a.trainable_parameter_bytes(), b.trainable_parameter_bytes()) << a.name();
    int64_t counted_macs = 0;
    for (const roofline::OpWork& op : counted.ops[l]) counted_macs += op.forward.macs;
    EXPECT_EQ(counted_macs, macs[l]) << a.name();
  }
  EXPECT_EQ(ValuesOf(counted.profile), ValuesOf(built));
}

roofline::UNetArchitecture Counted(const models::UNetConfig& config) {
  roofline::UNetArchitecture arch;
  arch.in_channels = config.in_channels;
  arch.out_channels = config.out_channels;
  arch.layers_per_block = static_cast<int>(config.layers_per_block);
  arch.context_width = config.cross_attention_dim;
  arch.middle_transformer_blocks = static_cast<int>(config.transformer_layers.back());
  for (int level = 0; level < config.num_levels(); ++level) {
    EXPECT_EQ(config.down_has_attention[level], config.up_has_attention[level]);
    arch.channels.push_back(config.block_out_channels[level]);
    arch.transformer_blocks.push_back(
        config.down_has_attention[level] ? static_cast<int>(config.transformer_layers[level]) : 0);
  }
  return arch;
}

void ExpectSameUNet(const models::UNetConfig& config, int64_t size, int64_t tokens) {
  roofline::UNetArchitecture arch = Counted(config);
  arch.context_length = tokens;
  roofline::UNetTrainingOptions options;
  options.latent_size = size;
  options.contexts = {{"text_encoder", "last_hidden_state", config.cross_attention_dim}};
  auto program = models::BuildUNetForTraining(config, {size, size, tokens},
                                              {*diffusion::NoiseSchedule::Create({}), 0});
  ASSERT_TRUE(program.ok()) << program.status();
  ExpectSame(roofline::UNetForTraining(arch, options), *std::move(program));
}

TEST(RooflineParityTest, UNetsOfCheckpoints) {
  for (const std::string name : {"unet_v21", "unet_v15"}) {
    const auto config = models::ParseUNetConfig(ReadTestdata(name + ".json"), name);
    ASSERT_TRUE(config.ok()) << config.status();
    for (int64_t size : {64, 32}) ExpectSameUNet(*config, size, 77);
  }
}

TEST(RooflineParityTest, TinySd) {
  const auto unet = models::ReadUNetConfig("data/tiny_sd/unet/config.json");
  ASSERT_TRUE(unet.ok()) << unet.status();
  ExpectSameUNet(*unet, 8, 24);
  const auto vae = models::ReadVaeConfig("data/tiny_sd/vae/config.json");
  ASSERT_TRUE(vae.ok()) << vae.status();
  roofline::VaeEncoderOptions options;
  options.image_size = 64;
  options.latent_channels = vae->latent_channels;
  options.quant_conv = vae->use_quant_conv;
  options.channels = vae->block_out_channels;
  options.layers_per_block = static_cast<int>(vae->layers_per_block);
  auto program = models::BuildVaeEncoder(*vae, 64, 64);
  ASSERT_TRUE(program.ok()) << program.status();
  ExpectSame(roofline::VaeEncoder(options), *std::move(program));
}

TEST(RooflineParityTest, VaeOfStableDiffusion) {
  const auto config = models::ParseVaeConfig(ReadTestdata("vae_sd.json"), "vae_sd");
  ASSERT_TRUE(config.ok()) << config.status();
  for (int64_t size : {256, 512}) {
    roofline::VaeEncoderOptions options;
    options.image_size = size;
    auto program = models::BuildVaeEncoder(*config, size, size);
    ASSERT_TRUE(program.ok()) << program.status();
    ExpectSame(roofline::VaeEncoder(options), *std::move(program));
  }
}

TEST(RooflineParityTest, TextEncodersOfStableDiffusion) {
  for (const std::string name : {"text_v21", "text_v15"}) {
    const auto config = models::ParseClipTextConfig(ReadTestdata(name + ".json"), name);
    ASSERT_TRUE(config.ok()) << config.status();
    roofline::ClipTextOptions options;
    options.width = config->hidden_size;
    options.hidden = config->intermediate_size;
    options.num_layers = static_cast<int>(config->num_layers);
    auto program = models::BuildClipText(*config, 77);
    ASSERT_TRUE(program.ok()) << program.status();
    ExpectSame(roofline::ClipText(options), *std::move(program));
  }
}

}  // namespace
}  // namespace dpipe

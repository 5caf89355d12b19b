#include "models/vae/vae.h"

#include "core/nn/parameters.h"
#include "core/nn/testing/gradient_check.h"
#include "gtest/gtest.h"
#include "models/testdata/parameter_list.h"

namespace dpipe::models {
namespace {

VaeConfig SmallConfig(double shift_factor = 0) {
  VaeConfig config;
  config.shift_factor = shift_factor;
  config.block_out_channels = {8, 16};
  config.layers_per_block = 1;
  config.norm_groups = 4;
  return config;
}

TEST(VaeTest, StableDiffusionsParameters) {
  const auto config = ParseVaeConfig(ReadTestdata("vae_sd.json"), "vae_sd.json");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto encoder = BuildVaeEncoder(*config, 512, 512);
  const auto decoder = BuildVaeDecoder(*config, 512, 512);
  ASSERT_TRUE(encoder.ok() && decoder.ok());
  EXPECT_EQ(ParametersOf({&*encoder, &*decoder}), ExpectedParameters("vae_sd.parameters"));
  EXPECT_EQ(encoder->value(encoder->OutputNamed("latents")).type.shape, Shape({64, 64, 4}));
  EXPECT_EQ(decoder->value(decoder->OutputNamed("pixels")).type.shape, Shape({512, 512, 3}));
  // 558 G multiply-adds per image of 512 x 512 [models.md].
  EXPECT_NEAR(encoder->MultiplyAdds(encoder->all_layers()) * 1e-9, 558, 6);
}

TEST(VaeTest, Flux1sParameters) {
  const auto config = ParseVaeConfig(ReadTestdata("vae_flux.json"), "vae_flux.json");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->scaling_factor, 0.3611);
  EXPECT_EQ(config->shift_factor, 0.1159);
  const auto encoder = BuildVaeEncoder(*config, 256, 256);
  const auto decoder = BuildVaeDecoder(*config, 256, 256);
  ASSERT_TRUE(encoder.ok() && decoder.ok());
  EXPECT_EQ(ParametersOf({&*encoder, &*decoder}), ExpectedParameters("vae_flux.parameters"));
  EXPECT_EQ(encoder->value(encoder->OutputNamed("latents")).type.shape, Shape({32, 32, 16}));
}

// Built trainable, so that gradients are checked through every node of both programs.
TEST(VaeTest, GradientsAndSplits) {
  const auto device = Device::Cpu();
  device->allocator().set_poison(true);
  for (const auto& [encoder, shift] : {std::make_pair(true, 0.0), std::make_pair(false, 0.0),
                                       std::make_pair(true, 0.5), std::make_pair(false, 0.5)}) {
    const VaeConfig config = SmallConfig(shift);
    const auto program = encoder ? BuildVaeEncoder(config, 8, 12, nn::LayerKind::kTrainable)
                                 : BuildVaeDecoder(config, 8, 12, nn::LayerKind::kTrainable);
    ASSERT_TRUE(program.ok());
    nn::ParameterSet parameters(*program, program->all_layers(), device);
    parameters.InitRandom(1);
    const nn::ValueMap inputs = nn::RandomInputs(*program, device, 2, DType::kF32, 1, 2);
    const absl::Status gradients = nn::CheckGradients(*program, &parameters, inputs, {});
    EXPECT_TRUE(gradients.ok()) << gradients;
    for (DType dtype : {DType::kF32, DType::kBf16}) {
      const absl::Status splits = nn::CheckSplits(
          *program, &parameters, nn::RandomInputs(*program, device, 2, dtype, 1, 2), {dtype}, 3, 3);
      EXPECT_TRUE(splits.ok()) << splits;
    }
  }
}

TEST(VaeTest, InvalidSizesAreErrors) {
  EXPECT_EQ(BuildVaeEncoder(SmallConfig(), 9, 12).status().message(),
            "vae: images of 9 x 12; 2 levels need multiples of 2");
  EXPECT_EQ(BuildVaeDecoder(SmallConfig(), 8, 0).status().message(),
            "vae: images of 8 x 0; 2 levels need multiples of 2");
}

TEST(VaeConfigTest, NamesProblems) {
  const auto error = [](const std::string& json) {
    return std::string(ParseVaeConfig(json, "vae/config.json").status().message());
  };
  EXPECT_EQ(error(R"({"block_out_channels": [32], "scaling_factor": "x",
                      "down_block_types": ["AttnDownBlock"]})"),
            "vae/config.json: 'scaling_factor' is \"x\", expected a finite number; "
            "'down_block_types' is [\"AttnDownBlock\"], unknown block type 'AttnDownBlock', known: "
            "DownEncoderBlock2D");
  EXPECT_EQ(
      error(R"({"block_out_channels": [32], "shift_factor": "x", "latents_mean": [0.5],
                      "mid_block_add_attention": false})"),
      "vae/config.json: 'latents_mean' is [0.5], supported: null; 'mid_block_add_attention' is "
      "false, supported: true; 'shift_factor' is \"x\", expected a finite number");
  EXPECT_EQ(error(R"({"block_out_channels": [32, 48], "up_block_types": ["UpDecoderBlock2D"],
                      "down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D"]})"),
            "vae/config.json: 'up_block_types' is [\"UpDecoderBlock2D\"], expected 2, one for "
            "each entry of 'block_out_channels'; 'block_out_channels' is [32,48], 48 is not a "
            "multiple of the 32 norm groups");
}

// Reports the class only, although every other key would also be a problem.
TEST(VaeConfigTest, AnotherClassIsTheOnlyProblem) {
  EXPECT_EQ(ParseVaeConfig(R"({"_class_name": "AutoencoderTiny", "scaling_factor": "x",
                               "encoder_block_out_channels": [64, 64, 64, 64]})",
                           "vae/config.json")
                .status()
                .message(),
            "vae/config.json: '_class_name' is \"AutoencoderTiny\"; only \"AutoencoderKL\" is "
            "supported");
}

}  // namespace
}  // namespace dpipe::models

#include "models/pixel_unet/pixel_unet.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/files/file.h"
#include "core/nn/parameters.h"
#include "core/nn/testing/gradient_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/pixel_unet/golden_case.h"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;

// Has scale and shift, residual blocks that resize, attention and a noise level.
PixelUNetConfig SmallConfig() {
  PixelUNetConfig config;
  config.in_channels = 6;
  config.block_out_channels = {8, 16};
  config.down = {{false, true}, {true, true}};
  config.up = {{false, true}, {true, true}};
  config.layers_per_block = 1;
  config.head_channels = 4;
  config.norm_groups = 4;
  config.mid_norm_groups = 4;
  config.scale_shift = true;
  config.noise_level_embed = true;
  return config;
}

PixelUNetOptions SmallOptions() {
  PixelUNetOptions options;
  options.height = 4;
  options.width = 6;
  options.low_height = 2;
  options.low_width = 3;
  return options;
}

absl::StatusOr<nn::Program> BuildSmall(const PixelUNetConfig& config,
                                       const PixelUNetOptions& options) {
  return BuildPixelUNetForTraining(config, options, {CosineSchedule(), 0, CosineSchedule()});
}

std::vector<std::string> ParametersOf(const nn::Program& program) {
  std::vector<std::string> lines;
  for (int i = 0; i < program.num_parameters(); ++i) {
    const nn::ParameterInfo& info = program.parameter(nn::ParameterId(i));
    lines.push_back(info.name);
    for (int64_t d : info.shape.dims()) absl::StrAppend(&lines.back(), " ", d);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST(PixelUNetTest, ParametersAreThoseOfDiffusers) {
  const struct {
    std::string name, config;
    int64_t millions;
  } cases[] = {
      {"pixel_guided", "models/pixel_unet/testdata/pixel_guided.json", 0},
      {"pixel_mixed", "models/pixel_unet/testdata/pixel_mixed.json", 0},
      {"pixel_plain_mid", "models/pixel_unet/testdata/pixel_plain_mid.json", 0},
      {"pixel_one_head", "models/pixel_unet/testdata/pixel_one_head.json", 0},
      {"tiny_cdm_base", "data/tiny_cdm/base/config.json", 0},
      {"tiny_cdm_super_resolution", "data/tiny_cdm/super_resolution/config.json", 0},
      {"cdm_lsun_base", "data/models/cdm_lsun/base/config.json", 295},
      {"cdm_lsun_super_resolution", "data/models/cdm_lsun/super_resolution/config.json", 554},
      {"cdm_imagenet_base", "data/models/cdm_imagenet/base/config.json", 295},
      {"cdm_imagenet_super_resolution", "data/models/cdm_imagenet/super_resolution/config.json",
       311}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const auto config = ReadPixelUNetConfig(c.config);
    ASSERT_TRUE(config.ok()) << config.status();
    PixelUNetOptions options;
    options.height = options.width = config->sample_size;
    if (config->noise_level_embed) options.low_height = options.low_width = 8;
    const auto program = BuildSmall(*config, options);
    ASSERT_TRUE(program.ok()) << program.status();
    const auto text = ReadFile("models/pixel_unet/testdata/" + c.name + ".parameters");
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(ParametersOf(*program),
              (std::vector<std::string>(absl::StrSplit(*text, '\n', absl::SkipEmpty()))));
    if (c.millions > 0) {
      EXPECT_EQ(program->ParameterCount(program->all_layers()) / 1000000, c.millions);
    }
    const auto inference = BuildPixelUNetForInference(*config, options);
    ASSERT_TRUE(inference.ok()) << inference.status();
    EXPECT_EQ(ParametersOf(*inference), ParametersOf(*program));
  }
}

TEST(PixelUNetTest, GradientsAndSplits) {
  const auto device = Device::Cpu();
  device->allocator().set_poison(true);
  for (bool plain : {false, true}) {
    PixelUNetConfig config = SmallConfig();
    PixelUNetOptions options = SmallOptions();
    options.prefix = "p.";
    if (plain) {
      config.in_channels = 3;
      config.noise_level_embed = config.scale_shift = false;
      config.num_class_embeds = 1000;
      config.down[0].resnet_resize = config.up[1].resnet_resize = false;
      options.low_height = options.low_width = 0;
    } else {
      config.in_channels = 9;
      options.self_conditioning = true;
    }
    const auto program = BuildSmall(config, options);
    ASSERT_TRUE(program.ok()) << program.status();
    nn::ParameterSet parameters(*program, program->all_layers(), device);
    parameters.InitRandom(1);
    if (plain) {
      const nn::ValueMap inputs = nn::RandomInputs(*program, device, 2, DType::kF32, 1000, 2);
      const absl::Status gradients = nn::CheckGradients(*program, &parameters, inputs, {});
      EXPECT_TRUE(gradients.ok()) << gradients;
    }
    for (DType dtype : {DType::kF32, DType::kBf16}) {
      const absl::Status splits =
          nn::CheckSplits(*program, &parameters,
                          nn::RandomInputs(*program, device, 2, dtype, 1000, 2), {dtype}, 3, 3);
      EXPECT_TRUE(splits.ok()) << splits;
    }
  }
}

std::vector<GoldenCase> SmallGoldens() {
  const std::string testdata = "models/pixel_unet/testdata/";
  return {{"pixel_guided", "small", testdata + "pixel_guided.json", 8},
          {"pixel_mixed", "small", testdata + "pixel_mixed.json", 8},
          {"pixel_plain_mid", "small", testdata + "pixel_plain_mid.json", 8},
          {"pixel_one_head", "small", testdata + "pixel_one_head.json", 8},
          {"tiny_cdm_base", "small", "data/tiny_cdm/base/config.json", 16},
          {"tiny_cdm_super_resolution", "small", "data/tiny_cdm/super_resolution/config.json", 32}};
}

TEST(PixelUNetGoldenTest, Fp32) {
  for (const GoldenCase& c : SmallGoldens()) {
    const GoldenErrors errors = MeasureGolden(c, DType::kF32, Device::Cpu());
    EXPECT_LT(errors.prediction, 1e-5) << c.name;
    EXPECT_LT(errors.loss, 1e-5) << c.name;
    EXPECT_LT(errors.gradient_norm, 1e-4) << c.name;
    EXPECT_LT(errors.gradient_product, 1e-4) << c.name;
  }
  const GoldenErrors errors = MeasureGolden(SmallGoldens()[0], DType::kF32, Device::CpuReference());
  EXPECT_LT(errors.prediction, 1e-5);
  EXPECT_LT(errors.gradient_product, 1e-4);
}

// One bf16 rounding is off by at most 2^-9, and by 2^-9 / sqrt(3) = 0.11 % in the root mean square.
// The main path of these U-Nets has some 60 roundings of values that are not contracted. They add
// up as squares: 8 x 0.11 % = 0.9 %. Gradients pass twice as many roundings, half of them with
// rounded partners: 2 %, and a few times that if a parameter's gradient is a sum over pixels that
// nearly cancels. The bounds are three times that. The product's bound is another three times
// larger, as it is the maximum of hundreds of nearly normal numbers.
TEST(PixelUNetGoldenTest, Bf16) {
  for (const GoldenCase& c : SmallGoldens()) {
    const GoldenErrors errors = MeasureGolden(c, DType::kBf16, Device::Cpu());
    EXPECT_LT(errors.prediction, 0.03) << c.name;
    EXPECT_LT(errors.loss, 0.03) << c.name;
    EXPECT_LT(errors.gradient_norm, 0.08) << c.name;
    EXPECT_LT(errors.gradient_product, 0.25) << c.name;
  }
}

TEST(PixelUNetTest, MismatchesAreNamed) {
  PixelUNetOptions options = SmallOptions();
  options.height = 5;
  EXPECT_THAT(std::string(BuildSmall(SmallConfig(), options).status().message()),
              HasSubstr("images of 5 x 6; 2 levels need multiples of 2"));
  options = SmallOptions();
  options.self_conditioning = true;
  EXPECT_THAT(std::string(BuildSmall(SmallConfig(), options).status().message()),
              HasSubstr("6 input channels; 3 pictures of 3 channels need 9"));
  PixelUNetConfig config = SmallConfig();
  config.noise_level_embed = false;
  EXPECT_THAT(std::string(BuildSmall(config, SmallOptions()).status().message()),
              HasSubstr("given a picture of lower resolution, and has no embedding"));
}

TEST(PixelUNetConfigTest, NamesProblems) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("down_block_types": ["SkipDownBlock2D", "AttnDownBlock2D"])",
       "unknown block type 'SkipDownBlock2D'"},
      {R"("up_block_types": ["UpBlock2D"])", "'up_block_types' is [\"UpBlock2D\"], expected 2"},
      {R"("block_out_channels": [32, 48])", "48 is not a multiple of the 32 norm groups"},
      {R"("dropout": "x")", "'dropout' is \"x\", expected a finite number"},
      {R"("downsample_type": "fir")", "'downsample_type' is \"fir\""}};
  for (const auto& [keys, problem] : cases) {
    // If a key is repeated, the last one counts.
    const std::string json = absl::StrCat(
        R"({"_class_name": "UNet2DModel", "block_out_channels": [32, 64], "norm_num_groups": 32,
            "down_block_types": ["DownBlock2D", "AttnDownBlock2D"],
            "up_block_types": ["UpBlock2D", "UpBlock2D"], )",
        keys, "}");
    EXPECT_THAT(std::string(ParsePixelUNetConfig(json, "c").status().message()),
                HasSubstr(problem));
  }
}

}  // namespace
}  // namespace dpipe::models

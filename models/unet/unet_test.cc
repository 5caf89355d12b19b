#include "models/unet/unet.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "core/nn/parameters.h"
#include "core/nn/testing/gradient_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/diffusion/diffusion_objective.h"
#include "models/testdata/parameter_list.h"

namespace dpipe::models {
namespace {

UNetConfig Config(const std::string& name) {
  const auto config = ParseUNetConfig(ReadTestdata(name + ".json"), name + ".json");
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

diffusion::DiffusionObjective Training(
    diffusion::PredictionType type = diffusion::PredictionType::kEpsilon,
    double min_snr_gamma = 0) {
  diffusion::NoiseScheduleOptions options;
  options.prediction_type = type;
  return diffusion::DiffusionObjective(*diffusion::NoiseSchedule::Create(options), min_snr_gamma);
}

UNetConfig SmallConfig() {
  UNetConfig config;
  config.block_out_channels = {8, 16};
  config.down_has_attention = {true, false};
  config.up_has_attention = {true, false};
  config.layers_per_block = 1;
  config.num_heads = {2, 4};
  config.transformer_layers = {1, 1};
  config.cross_attention_dim = 6;
  config.norm_groups = 4;
  return config;
}

TEST(UNetTest, ParametersAreThoseOfTheCheckpoints) {
  const struct {
    std::string name;
    int64_t elements;
  } cases[] = {{"unet_v15", 859520964}, {"unet_v21", 865910724}, {"unet_sdxl", 2567463684},
               {"unet_mixed", 1026596}, {"unet_xl", 1692932},    {"unet_conv", 194844}};
  for (const auto& c : cases) {
    const auto program = BuildUNetForTraining(Config(c.name), {64, 64, 77}, Training());
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ(ParametersOf({&*program}), ExpectedParameters(c.name + ".parameters"));
    EXPECT_EQ(program->ParameterCount(program->all_layers()), c.elements);
    const auto inference = BuildUNetForInference(Config(c.name), {64, 64, 77});
    EXPECT_EQ(ParametersOf({&*inference}), ParametersOf({&*program}));
  }
}

TEST(UNetTest, BuildsStableDiffusion21) {
  const UNetConfig config = Config("unet_v21");
  const auto program = BuildUNetForTraining(config, {64, 64, 77}, Training());
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(program->num_layers(), 149);
  // 402 G multiply-adds at 512 px, 90.5 G at 256 px [models.md].
  EXPECT_NEAR(program->MultiplyAdds(program->all_layers()) * 1e-9, 402, 4);
  const auto small = BuildUNetForTraining(config, {32, 32, 77}, Training());
  EXPECT_NEAR(small->MultiplyAdds(small->all_layers()) * 1e-9, 90.5, 1);
  EXPECT_EQ(program->value(program->OutputNamed("loss")).type.shape, Shape());
  // The cut between the down and the up path is crossed by x, the time embedding and the twelve
  // skips. The last skip is x itself.
  const int mid = program->FindLayer("mid_block.resnets.0.conv1");
  EXPECT_EQ(program->LiveAt(mid).size(), 13);
  // The context is an external input: it crosses no cut.
  for (ValueId id : program->LiveAt(mid)) EXPECT_TRUE(program->value(id).has_gradient);
  EXPECT_TRUE(program->LiveAt(1).size() == 1 && !program->value(program->LiveAt(1)[0]).has_gradient)
      << "noisy latents";
}

void CheckSmallUNet(const nn::Program& program) {
  const auto device = Device::Cpu();
  device->allocator().set_poison(true);
  nn::ParameterSet parameters(program, program.all_layers(), device);
  parameters.InitRandom(1);
  const nn::ValueMap inputs = nn::RandomInputs(program, device, 2, DType::kF32, 1000, 2);
  const absl::Status gradients = nn::CheckGradients(program, &parameters, inputs, {});
  EXPECT_TRUE(gradients.ok()) << gradients;
  for (DType dtype : {DType::kF32, DType::kBf16}) {
    const absl::Status splits = nn::CheckSplits(
        program, &parameters, nn::RandomInputs(program, device, 2, dtype, 1000, 2), {dtype}, 3, 2);
    EXPECT_TRUE(splits.ok()) << splits;
  }
}

TEST(UNetTest, GradientsAndSplits) {
  for (bool linear_projection : {false, true}) {
    UNetConfig config = SmallConfig();
    config.linear_projection = linear_projection;
    const diffusion::DiffusionObjective training =
        linear_projection ? Training(diffusion::PredictionType::kV, 5)
                          : Training(diffusion::PredictionType::kEpsilon);
    const auto program = BuildUNetForTraining(config, {4, 6, 3}, training);
    ASSERT_TRUE(program.ok()) << program.status();
    CheckSmallUNet(*program);
  }
}

TEST(UNetTest, SelfConditioning) {
  const auto device = Device::Cpu();
  UNetConfig config = SmallConfig();
  config.in_channels = 8;
  config.further_input = FurtherInput::kEstimate;
  const auto program = BuildUNetForTraining(config, {4, 6, 3}, Training());
  ASSERT_TRUE(program.ok()) << program.status();
  // "prediction" has the type of "estimate" and no gradient.
  const nn::ValueInfo& estimate = program->value(program->InputNamed("estimate"));
  const nn::ValueInfo& prediction = program->value(program->OutputNamed("prediction"));
  EXPECT_EQ(estimate.type.shape, (Shape{4, 6, 4}));
  EXPECT_EQ(estimate.type.shape, prediction.type.shape);
  EXPECT_FALSE(prediction.has_gradient);
  // Only the first layer reads it, so it only needs to reach the first stage.
  EXPECT_EQ(estimate.last_layer, 0);
  nn::ParameterSet parameters(*program, program->all_layers(), device);
  parameters.InitRandom(1);
  const absl::Status splits = nn::CheckSplits(
      *program, &parameters, nn::RandomInputs(*program, device, 2, DType::kF32, 1000, 2), {}, 3, 2);
  EXPECT_TRUE(splits.ok()) << splits;
}

TEST(UNetTest, CoordinatesAreFurtherChannelsOfTheInput) {
  UNetConfig config = SmallConfig();
  config.in_channels = 6;
  config.further_input = FurtherInput::kCoordinates;
  const auto program = BuildUNetForTraining(config, {4, 6, 3}, Training());
  ASSERT_TRUE(program.ok()) << program.status();
  const nn::ValueInfo& coordinates = program->value(program->InputNamed("coordinates"));
  EXPECT_EQ(coordinates.type.shape, (Shape{4, 6, 2}));
  EXPECT_EQ(program->value(program->InputNamed("noise")).type.shape, (Shape{4, 6, 4}));
  // Only the first layer reads them, so they only need to reach the first stage.
  EXPECT_EQ(coordinates.last_layer, 0);
  CheckSmallUNet(*program);
}

// The further channels may have another purpose, as in instruct-pix2pix.
TEST(UNetTest, ForeignChannelsAreRefused) {
  UNetConfig config = SmallConfig();
  for (const int channels : {6, 7, 8}) {
    config.in_channels = channels;
    EXPECT_THAT(
        std::string(BuildUNetForTraining(config, {4, 6, 3}, Training()).status().message()),
        ::testing::HasSubstr(absl::StrCat(channels, " input channels and 4 output channels")));
  }
}

TEST(UNetConfigTest, FurtherInput) {
  const auto parse = [](int in_channels, const std::string& further) {
    return ParseUNetConfig(absl::StrCat("{\"in_channels\": ", in_channels, further, "}"), "c.json");
  };
  const auto plain = parse(8, "");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->further_input, FurtherInput::kNone);
  EXPECT_EQ(plain->latent_channels(), 8);
  EXPECT_EQ(GuessFurtherInput(*plain), FurtherInput::kEstimate);
  EXPECT_EQ(GuessFurtherInput(*parse(6, "")), FurtherInput::kCoordinates);
  EXPECT_EQ(GuessFurtherInput(*parse(9, "")), FurtherInput::kNone);
  for (const auto& [channels, input] : std::vector<std::pair<int, FurtherInput>>{
           {8, FurtherInput::kEstimate}, {6, FurtherInput::kCoordinates}}) {
    const auto config =
        parse(channels, absl::StrCat(", \"_further_input\": \"", FurtherInputName(input), "\""));
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->further_input, input);
    EXPECT_EQ(config->latent_channels(), 4);
  }
  EXPECT_THAT(std::string(parse(4, ", \"_further_input\": \"estimate\"").status().message()),
              ::testing::HasSubstr("expected 8, because '_further_input' is 'estimate'"));
  EXPECT_THAT(std::string(parse(4, ", \"_further_input\": \"moon\"").status().message()),
              ::testing::HasSubstr("expected 'estimate' or 'coordinates'"));
}

// A sample's loss does not depend on the rest of its batch.
TEST(UNetTest, SamplesAreIndependent) {
  const auto device = Device::Cpu();
  const auto program = BuildUNetForTraining(SmallConfig(), {4, 4, 3}, Training());
  ASSERT_TRUE(program.ok());
  nn::ParameterSet parameters(*program, program->all_layers(), device);
  parameters.InitRandom(1);
  const nn::ValueMap inputs = nn::RandomInputs(*program, device, 3, DType::kF32, 1000, 2);
  const ValueId loss = program->OutputNamed("loss");
  nn::ValueMap whole = inputs;
  ASSERT_TRUE(nn::Forward(*program, program->all_layers(), parameters, {}, &whole, nullptr).ok());
  for (int i = 0; i < 3; ++i) {
    nn::ValueMap one;
    for (const auto& [id, tensor] : inputs) one[id] = tensor.Slice(i, i + 1);
    ASSERT_TRUE(nn::Forward(*program, program->all_layers(), parameters, {}, &one, nullptr).ok());
    EXPECT_NEAR(one[loss].data<float>()[0], whole[loss].data<float>()[i], 1e-5);
  }
}

TEST(UNetTest, BadShapesAreNamed) {
  EXPECT_EQ(BuildUNetForInference(SmallConfig(), {5, 4, 3}).status().message(),
            "unet: latents of 5 x 4 with 3 tokens; 2 levels need multiples of 2");
  UNetConfig config = SmallConfig();
  config.out_channels = 8;
  EXPECT_EQ(BuildUNetForTraining(config, {4, 4, 3}, Training()).status().message(),
            "unet: 4 input channels and 8 output channels; training needs the same number");
}

// As in diffusers' UNet2DConditionModel, which cannot be built with the newer key.
TEST(UNetConfigTest, NumAttentionHeadsIsRefused) {
  const auto config = ParseUNetConfig(R"({"num_attention_heads": 8})", "unet/config.json");
  EXPECT_EQ(config.status().message(),
            "unet/config.json: 'num_attention_heads' is 8, supported: null");
  EXPECT_TRUE(ParseUNetConfig(R"({"num_attention_heads": null})", "unet/config.json").ok());
}

TEST(UNetConfigTest, ListsOfEqualEntriesAndDropoutAreRead) {
  const auto config = ParseUNetConfig(
      R"({"block_out_channels": [32, 64], "down_block_types": ["DownBlock2D", "DownBlock2D"],
          "up_block_types": ["UpBlock2D", "UpBlock2D"], "cross_attention_dim": [48, 48],
          "only_cross_attention": [false, false], "layers_per_block": [1, 1], "dropout": 0.1,
          "sample_size": [24, 24]})",
      "unet/config.json");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->cross_attention_dim, 48);
  EXPECT_EQ(config->layers_per_block, 1);
  EXPECT_EQ(config->sample_size, 24);
  EXPECT_EQ(config->dropout, 0.1);
}

TEST(UNetConfigTest, NamesProblems) {
  const struct {
    const char *keys, *problem;
  } cases[] = {
      {R"("down_block_types": ["CrossAttnDownBlock2D", "AttnDownBlock2D"])",
       "'down_block_types' is [\"CrossAttnDownBlock2D\",\"AttnDownBlock2D\"], unknown block type "
       "'AttnDownBlock2D', known: DownBlock2D, CrossAttnDownBlock2D"},
      {R"("layers_per_block": [1, 2])",
       "'layers_per_block' is [1,2], expected a positive integer or a list of equal ones"},
      {R"("attention_head_dim": [2, 4, 8])",
       "'attention_head_dim' is [2,4,8], expected a positive integer or a list of 2 of them"},
      {R"("class_embed_type": "timestep")", "'class_embed_type' is \"timestep\", supported: null"},
      {R"("up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"])",
       "'up_block_types' is [\"UpBlock2D\",\"CrossAttnUpBlock2D\",\"UpBlock2D\"], expected 2, one "
       "for each entry of 'block_out_channels'"},
      {R"("class_embed_type": "timestep", "layers_per_block": 0)",
       "'layers_per_block' is 0, expected a positive integer or a list of equal ones; "
       "'class_embed_type' is \"timestep\", supported: null"},
  };
  for (const auto& c : cases) {
    // If a key is repeated, the last one counts.
    const std::string json = absl::StrCat(
        R"({"block_out_channels": [32, 64], "norm_num_groups": 16,
            "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
            "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"], )",
        c.keys, "}");
    EXPECT_EQ(ParseUNetConfig(json, "unet/config.json").status().message(),
              absl::StrCat("unet/config.json: ", c.problem));
  }
  EXPECT_EQ(ParseUNetConfig(R"({"_class_name": "UNet2DModel"})", "c").status().message(),
            "c: '_class_name' is \"UNet2DModel\"; only \"UNet2DConditionModel\" is supported");
}

}  // namespace
}  // namespace dpipe::models

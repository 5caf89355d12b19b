#include "models/clip_text/clip_text.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "core/nn/parameters.h"
#include "core/nn/testing/gradient_check.h"
#include "gtest/gtest.h"
#include "models/testdata/parameter_list.h"

namespace dpipe::models {

namespace {

ClipTextConfig SmallConfig() {
  ClipTextConfig config;
  config.vocab_size = 11;
  config.hidden_size = 8;
  config.intermediate_size = 20;
  config.num_layers = 2;
  config.num_heads = 2;
  config.max_positions = 7;
  return config;
}

TEST(ClipTextTest, StableDiffusionsParameters) {
  for (const std::string name : {"text_v15", "text_v21"}) {
    const auto config = ParseClipTextConfig(ReadTestdata(name + ".json"), name);
    ASSERT_TRUE(config.ok()) << config.status();
    const auto program = BuildClipText(*config, 77);
    ASSERT_TRUE(program.ok());
    EXPECT_EQ(ParametersOf({&*program}), ExpectedParameters(name + ".parameters"));
    EXPECT_TRUE(config->activation ==
                (name == "text_v15" ? ops::Activation::kQuickGelu : ops::Activation::kGelu));
    if (name != "text_v21") continue;
    EXPECT_EQ(program->num_layers(), 2 * 23 + 2);
    // 23 G multiply-adds per caption [models.md].
    EXPECT_NEAR(program->MultiplyAdds(program->all_layers()) * 1e-9, 23, 0.5);
  }
}

// SDXL's and Stable Diffusion 3's second text encoder.
TEST(ClipTextTest, BigGsParameters) {
  const auto config = ParseClipTextConfig(ReadTestdata("text_bigg.json"), "text_bigg");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->end_token, 49407);
  const ClipTextOutputs outputs = {ClipStates::kPenultimate, true};
  const auto program = BuildClipText(*config, 77, nn::LayerKind::kFrozen, outputs);
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(ParametersOf({&*program}), ExpectedParameters("text_bigg.parameters"));
  int64_t count = 0;
  for (int i = 0; i < program->num_parameters(); ++i) {
    count += program->parameter(nn::ParameterId(i)).shape.num_elements();
  }
  EXPECT_EQ(count, 694659840);
  EXPECT_TRUE(UnusedClipTextPrefixes(*config, outputs).empty());
}

// Every parameter of the checkpoint is the program's or has an unused prefix.
TEST(ClipTextTest, UnusedPartsAreLeftOut) {
  const auto config = ParseClipTextConfig(ReadTestdata("text_pooled.json"), "text_pooled");
  ASSERT_TRUE(config.ok()) << config.status();
  for (const ClipTextOutputs& outputs :
       {ClipTextOutputs{ClipStates::kLast, false}, ClipTextOutputs{ClipStates::kPenultimate, false},
        ClipTextOutputs{ClipStates::kPenultimateWithNorm, false},
        ClipTextOutputs{ClipStates::kNone, true}, ClipTextOutputs{ClipStates::kLast, true}}) {
    const auto program = BuildClipText(*config, 20, nn::LayerKind::kFrozen, outputs);
    ASSERT_TRUE(program.ok()) << program.status();
    const std::vector<std::string> prefixes = UnusedClipTextPrefixes(*config, outputs);
    std::vector<std::string> expected;
    for (const std::string& line : ExpectedParameters("text_pooled.parameters")) {
      const bool unused = std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& p) {
        return absl::StartsWith(line, p);
      });
      if (!unused) expected.push_back(line);
    }
    EXPECT_EQ(ParametersOf({&*program}), expected);
  }
  // Without a projection, a file's text_projection is not read, even for the pooled output.
  const auto legacy = ParseClipTextConfig(ReadTestdata("text_legacy.json"), "text_legacy");
  ASSERT_TRUE(legacy.ok()) << legacy.status();
  EXPECT_EQ(UnusedClipTextPrefixes(*legacy, {ClipStates::kNone, true}),
            std::vector<std::string>{"text_projection."});
}

TEST(ClipTextTest, GradientsAndSplitsOfPooledOutputs) {
  const auto device = Device::Cpu();
  device->allocator().set_poison(true);
  ClipTextConfig config = SmallConfig();
  config.with_projection = true;
  config.projection_size = 6;
  config.end_token = 4;
  for (const ClipStates states : {ClipStates::kPenultimate, ClipStates::kLast}) {
    const auto program = BuildClipText(config, 5, nn::LayerKind::kTrainable, {states, true});
    ASSERT_TRUE(program.ok()) << program.status();
    nn::ParameterSet parameters(*program, program->all_layers(), device);
    parameters.InitRandom(1);
    const nn::ValueMap inputs = nn::RandomInputs(*program, device, 3, DType::kF32, 11, 2);
    const absl::Status gradients = nn::CheckGradients(*program, &parameters, inputs, {});
    EXPECT_TRUE(gradients.ok()) << gradients;
    const absl::Status splits =
        nn::CheckSplits(*program, &parameters, inputs, nn::RunOptions{DType::kBf16}, 3);
    EXPECT_TRUE(splits.ok()) << splits;
  }
}

TEST(ClipTextTest, GradientsAndSplits) {
  const auto device = Device::Cpu();
  device->allocator().set_poison(true);
  const auto program = BuildClipText(SmallConfig(), 5, nn::LayerKind::kTrainable);
  ASSERT_TRUE(program.ok());
  nn::ParameterSet parameters(*program, program->all_layers(), device);
  parameters.InitRandom(1);
  const nn::ValueMap inputs = nn::RandomInputs(*program, device, 3, DType::kF32, 11, 2);
  const absl::Status gradients = nn::CheckGradients(*program, &parameters, inputs, {});
  EXPECT_TRUE(gradients.ok()) << gradients;
  for (DType dtype : {DType::kF32, DType::kBf16}) {
    const absl::Status splits =
        nn::CheckSplits(*program, &parameters, inputs, nn::RunOptions{dtype}, 3);
    EXPECT_TRUE(splits.ok()) << splits;
  }
}

// A token's state depends on itself and on earlier tokens only.
TEST(ClipTextTest, IsCausal) {
  const auto device = Device::Cpu();
  const auto program = BuildClipText(SmallConfig(), 5);
  ASSERT_TRUE(program.ok());
  nn::ParameterSet parameters(*program, program->all_layers(), device);
  parameters.InitRandom(1);
  const ValueId ids = program->InputNamed("ids");
  const ValueId out = program->OutputNamed("last_hidden_state");
  std::vector<Tensor> states;
  for (int last : {2, 9}) {
    nn::ValueMap values = {
        {ids, Tensor::FromHost<int32_t>(device, Shape({1, 5}), {4, 8, 1, 3, last})}};
    ASSERT_TRUE(
        nn::Forward(*program, program->all_layers(), parameters, {}, &values, nullptr).ok());
    states.push_back(values[out]);
  }
  EXPECT_EQ(std::memcmp(states[0].raw_data(), states[1].raw_data(), 4 * 8 * sizeof(float)), 0);
  EXPECT_NE(std::memcmp(states[0].raw_data(), states[1].raw_data(), 5 * 8 * sizeof(float)), 0);
}

TEST(ClipTextTest, BadInputIsNamed) {
  const auto error = [](const ClipTextConfig& config, const ClipTextOutputs& outputs) {
    return std::string(
        BuildClipText(config, 5, nn::LayerKind::kFrozen, outputs).status().message());
  };
  EXPECT_EQ(error(SmallConfig(), {ClipStates::kNone, false}),
            "text_encoder: neither states nor the pooled output is used");
  EXPECT_EQ(error(SmallConfig(), {ClipStates::kPenultimateWithNorm, true}),
            "text_encoder: the final norm is applied either to the penultimate states or for the "
            "pooled output");
  ClipTextConfig one_layer = SmallConfig();
  one_layer.num_layers = 1;
  EXPECT_EQ(error(one_layer, {ClipStates::kPenultimate, false}),
            "text_encoder: 1 layer has no penultimate states; use at least 2");
  EXPECT_EQ(BuildClipText(SmallConfig(), 8).status().message(),
            "text_encoder: 8 tokens, but it has positions for 1 to 7");
  EXPECT_EQ(
      ParseClipTextConfig(R"({"hidden_act": "relu", "hidden_size": 30, "num_attention_heads": 4})",
                          "text_encoder/config.json")
          .status()
          .message(),
      "text_encoder/config.json: 'hidden_act' is \"relu\", supported: \"gelu\", "
      "\"quick_gelu\"; 'hidden_size' is 30, expected a multiple of the 4 heads");
}

}  // namespace

}  // namespace dpipe::models

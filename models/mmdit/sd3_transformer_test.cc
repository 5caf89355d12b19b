#include "models/mmdit/sd3_transformer.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/nn/parameters.h"
#include "core/nn/testing/gradient_check.h"
#include "gtest/gtest.h"
#include "models/testdata/formula_weights.h"
#include "models/testdata/parameter_list.h"

namespace dpipe::models {

namespace {

Sd3TransformerConfig Config(const std::string& name) {
  const auto config = ParseSd3TransformerConfig(ReadTestdata(name + ".json"), name);
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

TEST(Sd3TransformerTest, ParametersAreThoseOfTheCheckpoints) {
  const struct {
    std::string name;
    int64_t elements;
  } cases[] = {{"sd3_medium", 2028328000},
               {"sd35_medium", 2243171520},
               {"sd35_large", 8056627520},
               {"sd3_plain", 163312},
               {"sd3_dual", 75624}};
  for (const auto& c : cases) {
    const auto program =
        BuildSd3Transformer(Config("mmdit/" + c.name), {8, 8, 5}, nn::LayerKind::kTrainable);
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ(ParametersOf({&*program}), ExpectedParameters("mmdit/" + c.name + ".parameters"));
    EXPECT_EQ(program->ParameterCount(program->all_layers()), c.elements) << c.name;
  }
}

TEST(Sd3TransformerTest, LayersAndCuts) {
  const auto program =
      BuildSd3Transformer(Config("mmdit/sd35_medium"), {128, 128, 333}, nn::LayerKind::kTrainable);
  ASSERT_TRUE(program.ok()) << program.status();
  // Three layers per block, another one in 13 blocks, no ff_context in the last, and four around.
  EXPECT_EQ(program->num_layers(), 24 * 3 + 13 - 1 + 4);
  // Between two blocks: image tokens, text tokens, conditioning.
  const int block = program->FindLayer("transformer_blocks.5.attn");
  EXPECT_EQ(program->LiveAt(block).size(), 3u);
  EXPECT_EQ(program->GradientsAt(block).size(), 3u);
  // Within the last one, text tokens have ended: image tokens, its modulation, and the conditioning
  // for the output.
  EXPECT_EQ(program->LiveAt(program->FindLayer("transformer_blocks.23.ff")).size(), 3u);
  const nn::ValueInfo& prediction = program->value(program->OutputNamed("prediction"));
  EXPECT_EQ(prediction.type.shape, (Shape{128, 128, 16}));
  // No layer is more than 3 % of the work.
  const double all = static_cast<double>(program->MultiplyAdds(program->all_layers()));
  for (int i = 0; i < program->num_layers(); ++i) {
    EXPECT_LT(static_cast<double>(program->MultiplyAdds({i, i + 1})), 0.03 * all)
        << program->layer(i).name;
  }
}

TEST(Sd3TransformerTest, GradientsAndSplits) {
  const auto device = Device::Cpu();
  device->allocator().set_poison(true);
  for (const std::string name : {"mmdit/sd3_plain", "mmdit/sd3_dual"}) {
    const auto program = BuildSd3Transformer(Config(name), {4, 6, 3}, nn::LayerKind::kTrainable);
    ASSERT_TRUE(program.ok()) << program.status();
    nn::ParameterSet parameters(*program, program->all_layers(), device);
    SetFormulaWeights(&parameters);  // initially, gates are zero
    const nn::ValueMap inputs = nn::RandomInputs(*program, device, 2, DType::kF32, 1000, 2);
    const absl::Status gradients = nn::CheckGradients(*program, &parameters, inputs, {});
    EXPECT_TRUE(gradients.ok()) << gradients;
    for (DType dtype : {DType::kF32, DType::kBf16}) {
      const absl::Status splits = nn::CheckSplits(
          *program, &parameters, nn::RandomInputs(*program, device, 2, dtype, 1000, 2), {dtype}, 3);
      EXPECT_TRUE(splits.ok()) << splits;
    }
  }
}

// With zero modulations no block adds anything.
TEST(Sd3TransformerTest, GatesAreInitiallyZero) {
  const auto device = Device::Cpu();
  const auto program =
      BuildSd3Transformer(Config("mmdit/sd3_dual"), {4, 6, 3}, nn::LayerKind::kTrainable);
  ASSERT_TRUE(program.ok()) << program.status();
  nn::ParameterSet parameters(*program, program->all_layers(), device);
  parameters.InitRandom(1);
  std::vector<Tensor> predictions;
  nn::ValueMap values = nn::RandomInputs(*program, device, 1, DType::kF32, 1000, 2);
  for (const char* other_context : {"", "context"}) {
    nn::ValueMap run = values;
    if (*other_context != 0) {
      const ValueId id = program->InputNamed(other_context);
      run[id] = FormulaInput(device, "other", run[id].shape());
    }
    ASSERT_TRUE(nn::Forward(*program, program->all_layers(), parameters, {}, &run, nullptr).ok());
    predictions.push_back(run[program->OutputNamed("prediction")]);
  }
  EXPECT_EQ(std::memcmp(predictions[0].raw_data(), predictions[1].raw_data(),
                        predictions[0].size_bytes()),
            0);
}

// The last token of a table of 9 x 9 whose positions are scaled to 8.
TEST(Sd3TransformerTest, PositionTable) {
  const auto table = Sd3PositionTable(Config("mmdit/sd3_plain"), Device::Cpu());
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->shape(), (Shape{1, 81, 48}));
  const float* const last = table->data<float>() + 80 * 48;
  for (const int64_t half : {0, 24}) {
    for (int64_t k = 0; k < 12; ++k) {
      const double angle = 8.0 * 8 / 9 * std::pow(10000, -static_cast<double>(k) / 12);
      EXPECT_NEAR(last[half + k], std::sin(angle), 1e-6);
      EXPECT_NEAR(last[half + 12 + k], std::cos(angle), 1e-6);
    }
  }
}

TEST(Sd3TransformerTest, BadShapesAreNamed) {
  const Sd3TransformerConfig config = Config("mmdit/sd3_plain");
  const auto message = [&](const MmditShape& shape) {
    return std::string(
        BuildSd3Transformer(config, shape, nn::LayerKind::kFrozen).status().message());
  };
  EXPECT_EQ(
      message({5, 4, 3}),
      "transformer: latents of 5 x 4 with 3 text tokens; it needs multiples of 2 and at least "
      "one text token");
  EXPECT_EQ(message({20, 4, 3}),
            "transformer: latents of 20 x 4, but it has positions for at most 18 x 18");
}

TEST(Sd3TransformerConfigTest, NamesProblems) {
  const struct {
    const char *keys, *problem;
  } cases[] = {
      {R"("qk_norm": "layer_norm")", "'qk_norm' is \"layer_norm\", supported: null, \"rms_norm\""},
      {R"("patch_size": 4)", "'patch_size' is 4, supported: 2"},
      {R"("caption_projection_dim": 1000)",
       "'caption_projection_dim' is 1000, expected 1152, 18 heads of 64"},
      {R"("dual_attention_layers": [0, 18])",
       "'dual_attention_layers' is [0,18], expected a list of integers from 0 to 17"},
      {R"("dual_attention_layers": 3)",
       "'dual_attention_layers' is 3, expected a list of integers from 0 to 17"},
      {R"("num_layers": 0)", "'num_layers' is 0, expected a positive integer"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(ParseSd3TransformerConfig(absl::StrCat("{", c.keys, "}"), "transformer/config.json")
                  .status()
                  .message(),
              absl::StrCat("transformer/config.json: ", c.problem));
  }
  EXPECT_EQ(ParseSd3TransformerConfig(R"({"_class_name": "FluxTransformer2DModel"})", "c")
                .status()
                .message(),
            "c: '_class_name' is \"FluxTransformer2DModel\"; only \"SD3Transformer2DModel\" is "
            "supported");
  EXPECT_TRUE(ParseSd3TransformerConfig("{}", "c").ok());
}

}  // namespace

}  // namespace dpipe::models

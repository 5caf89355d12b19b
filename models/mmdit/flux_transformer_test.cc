#include "models/mmdit/flux_transformer.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/nn/parameters.h"
#include "core/nn/testing/gradient_check.h"
#include "gtest/gtest.h"
#include "models/testdata/formula_weights.h"
#include "models/testdata/parameter_list.h"

namespace dpipe::models {

namespace {

FluxTransformerConfig Config(const std::string& name) {
  const auto config = ParseFluxTransformerConfig(ReadTestdata(name + ".json"), name);
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

nn::Program Build(const std::string& name, const MmditShape& shape) {
  auto program = BuildFluxTransformer(Config(name), shape, nn::LayerKind::kTrainable);
  DPIPE_CHECK(program.ok()) << program.status();
  return *std::move(program);
}

TEST(FluxTransformerTest, ParametersAreThoseOfTheCheckpoints) {
  const struct {
    std::string name;
    int64_t elements;
  } cases[] = {{"flux_dev", 11901408320}, {"flux_guided", 278896}, {"flux_plain", 264112}};
  for (const auto& c : cases) {
    const nn::Program program = Build("mmdit/" + c.name, {8, 8, 5});
    EXPECT_EQ(ParametersOf({&program}), ExpectedParameters("mmdit/" + c.name + ".parameters"));
    EXPECT_EQ(program.ParameterCount(program.all_layers()), c.elements) << c.name;
  }
  // schnell lacks the embedding of the guidance scale.
  FluxTransformerConfig config = Config("mmdit/flux_dev");
  config.guidance_embeds = false;
  const auto schnell = BuildFluxTransformer(config, {8, 8, 5}, nn::LayerKind::kTrainable);
  ASSERT_TRUE(schnell.ok()) << schnell.status();
  std::vector<std::string> expected = ExpectedParameters("mmdit/flux_dev.parameters");
  expected.erase(std::remove_if(expected.begin(), expected.end(),
                                [](const std::string& line) {
                                  return absl::StrContains(line, "guidance_embedder");
                                }),
                 expected.end());
  EXPECT_EQ(ParametersOf({&*schnell}), expected);
  EXPECT_EQ(schnell->ParameterCount(schnell->all_layers()), 11891178560);
}

TEST(FluxTransformerTest, LayersCutsAndWork) {
  // MLPerf's shape: 256 pixels, 256 text tokens.
  const nn::Program program = Build("mmdit/flux_dev", {32, 32, 256});
  EXPECT_EQ(program.num_layers(), 19 * 3 + 38 + 4);
  // 20.3 TFLOP forward and backward per sample [models.md]: a third of them forward, two per
  // multiply-add.
  const double all = static_cast<double>(program.MultiplyAdds(program.all_layers()));
  EXPECT_NEAR(all * 1e-12, 20.3 / 6, 0.05);
  for (int i = 0; i < program.num_layers(); ++i) {
    EXPECT_LT(static_cast<double>(program.MultiplyAdds({i, i + 1})), 0.025 * all)
        << program.layer(i).name;
  }
  // Between double blocks: image tokens, text tokens, conditioning. Between single blocks: all
  // tokens, conditioning.
  EXPECT_EQ(program.LiveAt(program.FindLayer("transformer_blocks.7.attn")).size(), 3u);
  const auto& live = program.LiveAt(program.FindLayer("single_transformer_blocks.3"));
  ASSERT_EQ(live.size(), 2u);
  EXPECT_EQ(program.value(live[1]).type.shape, (Shape{512, 3072}));
}

TEST(FluxTransformerTest, GradientsAndSplits) {
  const auto device = Device::Cpu();
  device->allocator().set_poison(true);
  for (const std::string name : {"mmdit/flux_guided", "mmdit/flux_plain"}) {
    const nn::Program program = Build(name, {4, 6, 3});
    nn::ParameterSet parameters(program, program.all_layers(), device);
    SetFormulaWeights(&parameters);  // initially, gates are zero
    const nn::ValueMap inputs = nn::RandomInputs(program, device, 2, DType::kF32, 1000, 2);
    const absl::Status gradients = nn::CheckGradients(program, &parameters, inputs, {});
    EXPECT_TRUE(gradients.ok()) << gradients;
    for (DType dtype : {DType::kF32, DType::kBf16}) {
      const absl::Status splits = nn::CheckSplits(
          program, &parameters, nn::RandomInputs(program, device, 2, dtype, 1000, 2), {dtype}, 3);
      EXPECT_TRUE(splits.ok()) << splits;
    }
  }
}

// A sample's prediction does not depend on the rest of its batch.
TEST(FluxTransformerTest, SamplesAreIndependent) {
  const auto device = Device::Cpu();
  const nn::Program program = Build("mmdit/flux_guided", {4, 6, 3});
  nn::ParameterSet parameters(program, program.all_layers(), device);
  SetFormulaWeights(&parameters);
  const nn::ValueMap inputs = nn::RandomInputs(program, device, 3, DType::kF32, 1000, 2);
  const ValueId output = program.OutputNamed("prediction");
  nn::ValueMap whole = inputs;
  ASSERT_TRUE(nn::Forward(program, program.all_layers(), parameters, {}, &whole, nullptr).ok());
  for (int i = 0; i < 3; ++i) {
    nn::ValueMap one;
    for (const auto& [id, tensor] : inputs) one[id] = tensor.Slice(i, i + 1);
    ASSERT_TRUE(nn::Forward(program, program.all_layers(), parameters, {}, &one, nullptr).ok());
    const Tensor alone = one[output], among = whole[output].Slice(i, i + 1);
    for (int64_t k = 0; k < alone.num_elements(); ++k) {
      ASSERT_NEAR(alone.data<float>()[k], among.data<float>()[k], 1e-5);
    }
  }
}

// Only adapters are trained, and until then they add nothing.
TEST(FluxTransformerTest, LowRankAdaptation) {
  const auto device = Device::Cpu();
  device->allocator().set_poison(true);
  const FluxTransformerConfig config = Config("mmdit/flux_guided");
  const MmditShape shape = {4, 6, 3};
  const nn::Program plain = Build("mmdit/flux_guided", shape);
  nn::ParameterSet plain_parameters(plain, plain.all_layers(), device);
  SetFormulaWeights(&plain_parameters);
  const nn::ValueMap inputs = nn::RandomInputs(plain, device, 2, DType::kF32, 1000, 2);
  nn::ValueMap expected = inputs;
  ASSERT_TRUE(
      nn::Forward(plain, plain.all_layers(), plain_parameters, {}, &expected, nullptr).ok());
  // All linear layers; diffusers' default, in both double blocks; the output of both single blocks.
  const struct {
    std::vector<std::string> targets;
    int adapters;
  } cases[] = {{{}, 10 + 2 * 14 + 2 * 6},
               {DefaultMmditLoraTargets(), 2 * 12 + 2 * 3},
               {{"single_transformer_blocks.0.proj_out", "attn.to_k"}, 1 + 2 + 2}};
  for (const auto& c : cases) {
    const auto program =
        BuildFluxTransformer(config, shape, nn::LayerKind::kTrainable, {2, 0.5f, c.targets});
    ASSERT_TRUE(program.ok()) << program.status();
    nn::ParameterSet parameters(*program, program->all_layers(), device);
    parameters.InitRandom(1);
    EXPECT_EQ(parameters.trainable_ids().size(), 2 * c.adapters);
    for (nn::ParameterId id : parameters.trainable_ids()) {
      EXPECT_TRUE(absl::StrContains(program->parameter(id).name, ".lora_"))
          << program->parameter(id).name;
    }
    for (nn::ParameterId id : parameters.ids()) {
      const std::string& name = program->parameter(id).name;
      if (!absl::StrContains(name, ".lora_")) SetFormulaWeight(name, id, &parameters);
    }
    nn::ValueMap values = inputs;
    ASSERT_TRUE(
        nn::Forward(*program, program->all_layers(), parameters, {}, &values, nullptr).ok());
    const Tensor y = values[program->OutputNamed("prediction")];
    const Tensor y_plain = expected[plain.OutputNamed("prediction")];
    EXPECT_EQ(std::memcmp(y.raw_data(), y_plain.raw_data(), y.size_bytes()), 0);
    if (c.targets.empty()) continue;  // a hundred parameters: the others have all kinds of them
    SetFormulaWeights(&parameters);
    const absl::Status gradients = nn::CheckGradients(*program, &parameters, inputs, {});
    EXPECT_TRUE(gradients.ok()) << gradients;
  }
}

TEST(FluxTransformerTest, BadShapesAreNamed) {
  EXPECT_EQ(
      BuildFluxTransformer(Config("mmdit/flux_plain"), {4, 4, 0}, nn::LayerKind::kFrozen)
          .status()
          .message(),
      "transformer: latents of 4 x 4 with 0 text tokens; it needs multiples of 2 and at least "
      "one text token");
}

TEST(FluxTransformerConfigTest, NamesProblems) {
  const struct {
    const char *keys, *problem;
  } cases[] = {
      {R"("patch_size": 2)", "'patch_size' is 2, supported: 1"},
      {R"("in_channels": 66)",
       "'in_channels' is 66, expected a multiple of 4: a token is 2 x 2 latents"},
      {R"("in_channels": 384, "out_channels": 64)",
       "'out_channels' is 64, expected 'in_channels', 384; models with further inputs (Fill, "
       "Canny, "
       "Depth) are not supported"},
      {R"("axes_dims_rope": [16, 56])",
       "'axes_dims_rope' is [16,56], expected three even numbers with the sum 128, the value of "
       "'attention_head_dim'"},
      {R"("attention_head_dim": 64)",
       "'axes_dims_rope' is missing, expected three even numbers with the sum 64, the value of "
       "'attention_head_dim'"},
      {R"("guidance_embeds": 1)", "'guidance_embeds' is 1, expected true or false"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(ParseFluxTransformerConfig(absl::StrCat("{", c.keys, "}"), "transformer/config.json")
                  .status()
                  .message(),
              absl::StrCat("transformer/config.json: ", c.problem));
  }
  EXPECT_TRUE(ParseFluxTransformerConfig(R"({"out_channels": null})", "c").ok());
}

}  // namespace

}  // namespace dpipe::models

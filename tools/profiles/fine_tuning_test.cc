#include "tools/profiles/fine_tuning.h"

#include "core/cost/cost_model.h"
#include "core/cost/testing/fake_profile.h"
#include "gtest/gtest.h"

namespace dpipe::tools {
namespace {

constexpr char kDevice[] = "a100_80gb";

const ComponentProfile& Backbone(const ModelProfile& profile) {
  const ComponentProfile& last = profile.components(profile.components_size() - 1);
  EXPECT_TRUE(last.is_backbone());
  return last;
}

TEST(FineTuningTest, EveryProfileIsValid) {
  EXPECT_EQ(FineTunings().size(), 16);
  EXPECT_EQ(FineTunings().front().name(), "sdxl_512_lora");
  EXPECT_EQ(FineTunings().back().name(), "flux_1024");
  for (const FineTuning& tuning : FineTunings()) {
    const auto profile = FineTuningProfile(tuning, kDevice);
    ASSERT_TRUE(profile.ok()) << tuning.name() << ": " << profile.status();
    const auto cost = CostModel::Create(*profile, IdealCluster(8));
    EXPECT_TRUE(cost.ok()) << tuning.name() << ": " << cost.status();
  }
  EXPECT_EQ(FineTuningProfile({"wan", 512, false}, kDevice).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FineTuningProfile({"sdxl", 512, false}, "tpu").status().code(),
            absl::StatusCode::kInvalidArgument);
}

// FLUX.1 has 11,901,408,320 weights, T5-XXL 4,762,310,656.
TEST(FineTuningTest, BytesOfWeightsByHand) {
  constexpr int64_t kFlux = 11901408320, kT5 = 4762310656;
  const ModelProfile full = FineTuningProfile({"flux", 1024, false}, kDevice).value();
  const ModelProfile lora = FineTuningProfile({"flux", 1024, true}, kDevice).value();
  const auto state = [](const ModelProfile& profile) {
    const CostModel cost = CostModel::Create(profile, IdealCluster(2)).value();
    const int backbone = profile.components_size() - 1;
    return cost.StateBytes(backbone, cost.AllLayers(backbone));
  };
  // fp32 weights, gradients and two moments, and a bf16 copy of the weights.
  EXPECT_EQ(state(full), (4 + 4 + 8 + 2) * kFlux);
  // Rank 16. In 19 double blocks, for image and text: four projections of 3072 x 3072 channels and
  // two products of 3072 x 12288. In 38 single blocks: queries, keys and values.
  constexpr int64_t kSquare = 3072 + 3072, kWide = 3072 + 12288;
  constexpr int64_t kAdapters = 16 * (19 * 2 * (4 * kSquare + 2 * kWide) + 38 * 3 * kSquare);
  EXPECT_EQ(state(lora), 2 * kFlux + (4 + 4 + 8) * kAdapters);
  int64_t t5_bytes = 0;
  for (const LayerProfile& layer : full.components(2).layers()) t5_bytes += layer.parameter_bytes();
  EXPECT_EQ(full.components(2).name(), "text_encoder_2");
  EXPECT_EQ(t5_bytes, 2 * kT5);
}

// Adapters add little work. Without the gradients of the base weights, weight gradients nearly
// vanish; gradients of values flow as before from the first adapted layer on.
TEST(FineTuningTest, AdaptersComputeNoGradientsOfTheBase) {
  for (const char* model : {"sdxl", "stable_diffusion_3_5_medium", "flux"}) {
    const auto sums = [&](bool adapters) {
      const ModelProfile profile = FineTuningProfile({model, 1024, adapters}, kDevice).value();
      LayerTiming sum;
      for (const LayerProfile& layer : Backbone(profile).layers()) {
        const LayerTiming& t = layer.timings(3);
        sum.set_forward_ns(sum.forward_ns() + t.forward_ns());
        sum.set_input_grad_ns(sum.input_grad_ns() + t.input_grad_ns());
        sum.set_weight_grad_ns(sum.weight_grad_ns() + t.weight_grad_ns());
      }
      return sum;
    };
    const LayerTiming full = sums(false), lora = sums(true);
    EXPECT_GT(lora.forward_ns(), full.forward_ns()) << model;
    EXPECT_LT(lora.forward_ns(), 1.3 * full.forward_ns()) << model;
    EXPECT_GT(lora.input_grad_ns(), 0.7 * full.input_grad_ns()) << model;
    EXPECT_LT(lora.weight_grad_ns(), 0.35 * full.weight_grad_ns()) << model;
  }
}

}  // namespace
}  // namespace dpipe::tools

#include "tools/profiles/catalogue.h"

#include <utility>

#include "core/cost/cost_model.h"
#include "core/cost/roofline/device_spec.h"
#include "core/cost/testing/fake_profile.h"
#include "gtest/gtest.h"

namespace dpipe::tools {
namespace {

ModelProfile Profile(absl::StatusOr<roofline::ModelWork> model,
                     const roofline::DeviceSpec& device) {
  EXPECT_TRUE(model.ok()) << model.status();
  return roofline::ModelledProfile(*std::move(model), device);
}

// The whole step, which was not calibrated to: 171 images/s at batch 64 on an H200 (bench/results/
// h200/4a2e9ac/pytorch_unet).
TEST(CatalogueTest, WholeStepIsNearTheMeasuredOne) {
  const ModelProfile profile = Profile(StableDiffusionV21(512, false), roofline::Devices().back());
  EXPECT_NEAR(roofline::BackboneThroughput(profile, 64) / 171, 1.06, 0.01);
}

TEST(CatalogueTest, EveryEntryIsValid) {
  for (const CatalogueEntry& entry : Catalogue()) {
    const auto cost = CostModel::Create(ProfileOf(entry).value(), IdealCluster(8));
    EXPECT_TRUE(cost.ok()) << entry.path << ": " << cost.status();
  }
}

// More samples never take less time in total, nor more per sample. Frozen layers have no gradients;
// frozen layers with gradient have none for weights.
TEST(CatalogueTest, CurvesAreSane) {
  for (const CatalogueEntry& entry : Catalogue()) {
    const ModelProfile profile = ProfileOf(entry).value();
    for (const ComponentProfile& component : profile.components()) {
      for (const LayerProfile& layer : component.layers()) {
        ASSERT_EQ(layer.timings_size(), static_cast<int>(roofline::ModelledBatches().size()));
        for (int i = 0; i < layer.timings_size(); ++i) {
          const LayerTiming& t = layer.timings(i);
          EXPECT_GT(t.forward_ns(), 0) << entry.path << " " << layer.name();
          EXPECT_TRUE(layer.kind() != FROZEN || t.input_grad_ns() == 0);
          EXPECT_TRUE(layer.kind() == TRAINABLE || t.weight_grad_ns() == 0);
          if (i == 0) continue;
          const LayerTiming& half = layer.timings(i - 1);
          EXPECT_GE(t.forward_ns(), half.forward_ns());
          EXPECT_LE(t.forward_ns(), 2 * half.forward_ns() + 200);  // both are rounded
          EXPECT_GE(t.input_grad_ns(), half.input_grad_ns());
          EXPECT_LE(t.input_grad_ns(), 2 * half.input_grad_ns() + 200);
          EXPECT_GE(t.weight_grad_ns(), half.weight_grad_ns());
          EXPECT_LE(t.weight_grad_ns(), 2 * half.weight_grad_ns() + 200);
        }
      }
    }
  }
}

// The additional channels are read by the first convolution; the estimate crosses from the last
// stage to the first.
TEST(CatalogueTest, SelfConditioningOnlyWidensTheFirstConvolution) {
  const ModelProfile plain = Profile(StableDiffusionV21(512, false), roofline::Devices()[0]);
  const ModelProfile with = Profile(StableDiffusionV21(512, true), roofline::Devices()[0]);
  EXPECT_EQ(with.self_conditioning_probability(), 0.5);
  const ComponentProfile& unet = with.components(2);
  EXPECT_EQ(unet.self_conditioning_bytes_per_sample(), 64 * 64 * 4 * 2);
  ASSERT_EQ(unet.layers_size(), plain.components(2).layers_size());
  for (int l = 0; l < unet.layers_size(); ++l) {
    const int64_t more =
        unet.layers(l).parameter_bytes() - plain.components(2).layers(l).parameter_bytes();
    EXPECT_EQ(more, unet.layers(l).name() == "conv_in" ? 4 * 320 * 4 * 9 : 0);
  }
}

}  // namespace
}  // namespace dpipe::tools

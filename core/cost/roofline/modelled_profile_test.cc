#include "core/cost/roofline/modelled_profile.h"

#include <cmath>

#include "core/cost/cost_model.h"
#include "core/cost/roofline/catalogue.h"
#include "core/cost/testing/fake_profile.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace dpipe::roofline {
namespace {

const DeviceSpec& Device(const std::string& name) {
  for (const DeviceSpec& device : Devices()) {
    if (device.name == name) return device;
  }
  ADD_FAILURE() << name;
  return Devices()[0];
}

TEST(DeviceSpecTest, PassByHand) {
  DeviceSpec device;
  device.peak_macs_per_s = 1e12;
  device.memory_bytes_per_s = 1e11;
  device.convolution = {0.5, 0.4, 0.3};
  device.attention = {0.5, 0.25, 0.25};
  device.memory = {0.8, 0.4, 0.4};
  device.full_convolution_macs = 3e9;
  device.kernel_ns = 7;
  OpWork op;
  op.op_class = OpClass::kConvolution;
  EXPECT_EQ(PassNs(device, op, Pass::kForward, 4), 0);  // there is none
  op.forward = op.input_grad = {/*macs=*/500'000'000, /*bytes=*/1000, /*fixed_bytes=*/0,
                                /*kernels=*/1};
  // 1e9 multiply-adds are a quarter of w + full: half the efficiency, 0.25 of the peak.
  EXPECT_NEAR(PassNs(device, op, Pass::kForward, 2), 4e6 + 7, 1e-3);
  EXPECT_NEAR(PassNs(device, op, Pass::kInputGrad, 2), 5e6 + 7, 1e-3);
  op.op_class = OpClass::kAttention;
  op.head_size = 40;  // as slow as 64
  EXPECT_NEAR(PassNs(device, op, Pass::kForward, 2), 2e6 * 64 / 40 + 7, 1e-3);
  op.head_size = 128;
  EXPECT_NEAR(PassNs(device, op, Pass::kInputGrad, 2), 4e6 + 7, 1e-3);
  op.op_class = OpClass::kMemory;
  op.forward = op.weight_grad = {0, 100'000'000, 50'000'000, 2};
  EXPECT_NEAR(PassNs(device, op, Pass::kForward, 3), 350e6 / 80e9 * 1e9 + 14, 1e-3);
  EXPECT_NEAR(PassNs(device, op, Pass::kWeightGrad, 3), 350e6 / 40e9 * 1e9 + 14, 1e-3);
}

// The whole step, which was not calibrated to: 171 images/s at batch 64 on an H200 (bench/results/
// h200/4a2e9ac/pytorch_unet).
TEST(ModelledProfileTest, WholeStepIsNearTheMeasuredOne) {
  const ModelProfile profile = ModelledProfile(StableDiffusionV21(512, false), Device("h200_sxm"));
  EXPECT_NEAR(BackboneThroughput(profile, 64) / 171, 1.06, 0.01);
}

TEST(ModelledProfileTest, EveryEntryIsValid) {
  for (const CatalogueEntry& entry : Catalogue()) {
    const auto cost = CostModel::Create(ProfileOf(entry), IdealCluster(8));
    EXPECT_TRUE(cost.ok()) << entry.path << ": " << cost.status();
  }
}

// More samples never take less time in total, nor more per sample. Frozen layers have no gradients;
// frozen layers with gradient have none for weights.
TEST(ModelledProfileTest, CurvesAreSane) {
  for (const CatalogueEntry& entry : Catalogue()) {
    const ModelProfile profile = ProfileOf(entry);
    for (const ComponentProfile& component : profile.components()) {
      for (const LayerProfile& layer : component.layers()) {
        ASSERT_EQ(layer.timings_size(), static_cast<int>(ModelledBatches().size()));
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

TEST(ModelledProfileTest, CompactTextIsTheSameMessage) {
  const ModelProfile profile = ModelledProfile(ControlNetV10(512), Devices()[0]);
  ModelProfile read;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(CompactTextProto(profile), &read));
  EXPECT_EQ(read.SerializeAsString(), profile.SerializeAsString());
}

TEST(ModelledProfileTest, SelfConditioningOnlyWidensTheFirstConvolution) {
  const ModelProfile plain = ModelledProfile(StableDiffusionV21(512, false), Devices()[0]);
  const ModelProfile with = ModelledProfile(StableDiffusionV21(512, true), Devices()[0]);
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
}  // namespace dpipe::roofline

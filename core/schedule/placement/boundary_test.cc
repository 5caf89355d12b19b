#include "core/schedule/placement/boundary.h"

#include "core/base/philox.h"
#include "core/cost/testing/fake_profile.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Four layers in a chain of 10-byte values (v0 to v2), and a skip connection of 100 bytes from
// layer 0 to layers 1 (stage 1 below) and 3.
CostModel SkipModel() {
  UniformProfileOptions options;
  options.value_bytes = 10;
  ModelProfile profile = UniformProfile(options);
  ComponentProfile* backbone = profile.mutable_components(0);
  backbone->set_self_conditioning_bytes_per_sample(7);
  ValueProfile* skip = backbone->add_values();
  skip->set_name("skip");
  skip->set_bytes_per_sample(100);
  skip->set_producer_layer(0);
  skip->add_consumer_layers(1);
  skip->add_consumer_layers(3);
  skip->set_has_gradient(true);
  auto cost = CostModel::Create(profile, IdealCluster(2));
  EXPECT_TRUE(cost.ok()) << cost.status();
  return *std::move(cost);
}

TEST(BoundaryTest, StraightChainsSendAllLiveValues) {
  for (int i = 0; i < 200; ++i) {
    RandomStream stream(31, i, 0, RandomPurpose::kTest);
    const auto cost = CostModel::Create(RandomProfile(stream), IdealCluster(1));
    ASSERT_TRUE(cost.ok()) << cost.status();
    const int backbone = cost->backbone();
    std::vector<BoundaryStage> stages;
    for (int l = 0; l < cost->num_layers(backbone);) {
      const int end = l + 1 + static_cast<int>(stream.NextBelow(cost->num_layers(backbone) - l));
      stages.push_back({{l, end}, static_cast<int>(stages.size()), false});
      l = end;
    }
    const ChainBoundaries boundaries(*cost, backbone, stages);
    EXPECT_TRUE(boundaries.kept().empty());
    for (int k = 0; k + 1 < static_cast<int>(stages.size()); ++k) {
      const int cut = stages[k].layers.end;
      EXPECT_EQ(boundaries.Values(k), cost->ValuesAtCut(backbone, cut));
      EXPECT_EQ(boundaries.ForwardBytes(k), cost->CutBytesPerSample(backbone, cut));
      EXPECT_EQ(boundaries.GradientBytes(k), cost->CutGradientBytesPerSample(backbone, cut));
    }
  }
}

TEST(BoundaryTest, SkipToOwnDeviceIsNotSent) {
  const CostModel cost = SkipModel();
  const ChainBoundaries v(
      cost, 0, {{{0, 1}, 0, false}, {{1, 2}, 1, false}, {{2, 3}, 1, false}, {{3, 4}, 0, false}});
  // Stage 1 reads the skip. Of the later stages only stage 3 does, and its device already has it.
  EXPECT_EQ(v.ForwardBytes(0), 110);
  EXPECT_EQ(v.GradientBytes(0), 110);
  EXPECT_EQ(v.ForwardBytes(1), 0);  // v1 is produced and read on device 1
  EXPECT_EQ(v.ForwardBytes(2), 10);
  // Stage 3 sends its part of the skip's gradient to stage 1, which adds its own.
  EXPECT_EQ(v.GradientBytes(1), 100);
  EXPECT_EQ(v.GradientBytes(2), 110);
  ASSERT_EQ(v.kept().size(), 2u);
  EXPECT_EQ(v.kept()[0].from, 1);
  EXPECT_EQ(v.kept()[0].to, 2);
  EXPECT_EQ(v.kept()[1].from, 0);
  EXPECT_EQ(v.kept()[1].to, 3);
  EXPECT_EQ(v.kept()[1].bytes_per_sample, 100);
  EXPECT_FALSE(v.kept()[1].has_gradient);
}

TEST(BoundaryTest, SkipReadOnlyLocallyHasNoMessages) {
  const CostModel cost = SkipModel();
  const ChainBoundaries v(cost, 0, {{{0, 2}, 0, false}, {{2, 3}, 1, false}, {{3, 4}, 0, false}});
  for (int k : {0, 1}) {
    EXPECT_EQ(v.ForwardBytes(k), 10);
    EXPECT_EQ(v.GradientBytes(k), 10);
  }
  ASSERT_EQ(v.kept().size(), 1u);
  EXPECT_EQ(v.kept()[0].from, 0);
  EXPECT_EQ(v.kept()[0].to, 2);
  EXPECT_TRUE(v.kept()[0].has_gradient);
}

TEST(BoundaryTest, FirstLapSendsItsEstimate) {
  const CostModel cost = SkipModel();
  const ChainBoundaries laps(
      cost, 0, {{{0, 2}, 0, true}, {{2, 4}, 1, true}, {{0, 2}, 0, false}, {{2, 4}, 1, false}});
  EXPECT_EQ(laps.ForwardBytes(0), 110);
  EXPECT_EQ(laps.GradientBytes(0), 0);
  EXPECT_EQ(laps.ForwardBytes(1), 7);
  EXPECT_EQ(laps.GradientBytes(1), 0);
  EXPECT_EQ(laps.ForwardBytes(2), 110);
  EXPECT_EQ(laps.GradientBytes(2), 110);
}

}  // namespace
}  // namespace dpipe

#include "core/cost/step_bound.h"

#include "core/cost/testing/fake_profile.h"
#include "core/cost/validate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const ModelProfile& profile, const ClusterSpec& cluster, int64_t batch,
                    int64_t steps) {
  const auto cost = CostModel::Create(profile, cluster);
  EXPECT_TRUE(cost.ok()) << cost.status();
  return std::string(CheckStepTimes(*cost, batch, steps).message());
}

TEST(StepBoundTest, RealTimesFit) {
  // 20 layers of one second per sample.
  const ModelProfile profile = UniformProfile({20, kNanosPerSecond, kNanosPerSecond, 1});
  EXPECT_EQ(ErrorOf(profile, IdealCluster(64), 8192, 1000), "");
}

TEST(StepBoundTest, NamesTheLongestLayer) {
  ModelProfile profile = UniformProfile({4, 1000, 500, 1});
  profile.mutable_components(1)->mutable_layers(2)->mutable_timings(0)->set_forward_ns(kMaxNanos);
  EXPECT_EQ(ErrorOf(profile, IdealCluster(2), 1, 1), "");
  EXPECT_THAT(ErrorOf(profile, IdealCluster(2), kMaxGlobalBatch, 1000),
              HasSubstr("component 'backbone', layer 2 'layer2' with 351843720"));
}

TEST(StepBoundTest, NamesTheSlowestLink) {
  ModelProfile profile = UniformProfile({4, 1000, 500, 1});
  profile.mutable_components(1)->mutable_values(1)->set_bytes_per_sample(kMaxBytes);
  ClusterSpec cluster = IdealCluster(2);
  EXPECT_EQ(ErrorOf(profile, cluster, 1, 1), "");
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(kMinBandwidth);
  EXPECT_THAT(ErrorOf(profile, cluster, 1, 1),
              HasSubstr("over the cluster's intra_node with bandwidth_bytes_per_s 1000"));
}

// 2^48 bytes a sample, of 2^20 samples.
TEST(StepBoundTest, NamesTheLargestLayer) {
  ModelProfile profile = UniformProfile({4, 1000, 500, 1});
  profile.mutable_components(1)->mutable_layers(3)->set_saved_bytes_per_sample(kMaxBytes);
  EXPECT_EQ(ErrorOf(profile, IdealCluster(2), 1, 1), "");
  EXPECT_EQ(ErrorOf(profile, IdealCluster(2), kMaxGlobalBatch, 1),
            "1048576 samples could take 5.9e+20 bytes, more than the maximum of 4.6e+18: the "
            "largest part is component 'backbone', layer 3 'layer3'; check its bytes in the "
            "profile, or take fewer samples");
}

TEST(StepBoundTest, RefusesBatchesThatNobodyHas) {
  const ModelProfile profile = UniformProfile({4, 1000, 500, 1});
  EXPECT_EQ(ErrorOf(profile, IdealCluster(2), 0, 1),
            "a global batch of 0 samples is not within [1, 1048576]");
  EXPECT_NE(ErrorOf(profile, IdealCluster(2), kMaxGlobalBatch + 1, 1), "");
}

}  // namespace
}  // namespace dpipe

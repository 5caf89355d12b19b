#include "core/profile/median_profile.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

ModelProfile MakeProfile(int64_t forward_ns, int64_t load_ns, int batch = 4) {
  ModelProfile profile;
  profile.set_model("m");
  profile.set_provenance("measured");
  ComponentProfile* component = profile.add_components();
  component->set_name("unet");
  component->set_load_ns_per_sample(load_ns);
  LayerProfile* layer = component->add_layers();
  layer->set_name("conv_in");
  layer->set_parameter_bytes(16);
  LayerTiming* timing = layer->add_timings();
  timing->set_local_batch(batch);
  timing->set_forward_ns(forward_ns);
  timing->set_weight_grad_ns(100 - forward_ns);
  return profile;
}

TEST(MedianProfileTest, TakesMedianOfEachTime) {
  const auto median = MedianProfile({MakeProfile(10, 7), MakeProfile(30, 5), MakeProfile(20, 6)});
  ASSERT_TRUE(median.ok()) << median.status();
  const LayerTiming& timing = median->components(0).layers(0).timings(0);
  EXPECT_EQ(timing.forward_ns(), 20);
  EXPECT_EQ(timing.weight_grad_ns(), 80);
  EXPECT_EQ(timing.local_batch(), 4);
  EXPECT_EQ(median->components(0).load_ns_per_sample(), 6);
  EXPECT_EQ(median->components(0).layers(0).parameter_bytes(), 16);
  EXPECT_EQ(median->provenance(), "median of 3 profiles, each measured");
}

TEST(MedianProfileTest, OneAndTwoProfiles) {
  EXPECT_EQ(MedianProfile({MakeProfile(10, 7)})->components(0).layers(0).timings(0).forward_ns(),
            10);
  const auto two = MedianProfile({MakeProfile(30, 7), MakeProfile(20, 9)});
  EXPECT_EQ(two->components(0).layers(0).timings(0).forward_ns(), 20);
}

TEST(MedianProfileTest, RefusesDifferentProfiles) {
  EXPECT_FALSE(MedianProfile({}).ok());
  ModelProfile other_model = MakeProfile(1, 1);
  other_model.set_model("n");
  EXPECT_THAT(std::string(MedianProfile({MakeProfile(1, 1), other_model}).status().message()),
              HasSubstr("of m with 1 component(s) and of n with 1"));
  ModelProfile more_layers = MakeProfile(1, 1);
  more_layers.mutable_components(0)->add_layers();
  EXPECT_THAT(std::string(MedianProfile({MakeProfile(1, 1), more_layers}).status().message()),
              HasSubstr("unet has 1 layers in one profile, 2 in another"));
  EXPECT_THAT(
      std::string(MedianProfile({MakeProfile(1, 1), MakeProfile(1, 1, 8)}).status().message()),
      HasSubstr("conv_in of unet was timed at different local batches"));
}

TEST(MedianClusterTest, TakesMedianOfLinks) {
  std::vector<ClusterSpec> clusters(3);
  for (int i = 0; i < 3; ++i) {
    clusters[i].set_name(i == 0 ? "first" : "other");
    clusters[i].mutable_intra_node()->set_latency_ns(10 * (3 - i));
    clusters[i].mutable_intra_node()->set_bandwidth_bytes_per_s(i == 1 ? 5 : 1);
  }
  const auto median = MedianCluster(clusters);
  ASSERT_TRUE(median.ok());
  EXPECT_EQ(median->name(), "first");
  EXPECT_EQ(median->intra_node().latency_ns(), 20);
  EXPECT_EQ(median->intra_node().bandwidth_bytes_per_s(), 1);
  EXPECT_FALSE(MedianCluster({}).ok());
}

}  // namespace
}  // namespace dpipe

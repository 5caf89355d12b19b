#include "core/profile/profile_match.h"

#include "core/cost/testing/fake_profile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

class ProfileMatchTest : public ::testing::Test {
 protected:
  ProfileMatchTest() {
    UniformProfileOptions options;
    options.num_layers = 3;
    options.frozen_layers = 2;
    options.value_bytes = 100;
    options.parameter_bytes = 1000;
    stored_ = UniformProfile(options);
    stored_.set_device("2 x 1-core CPU device");
    stored_.set_dtype("fp32");
    stored_.set_frozen_quantum(2);
    Time({1, 2, 4});
    here_ = stored_;
    for (ComponentProfile& component : *here_.mutable_components()) {
      for (LayerProfile& layer : *component.mutable_layers()) layer.clear_timings();
    }
  }
  static ComponentProfile* Backbone(ModelProfile* profile) {
    for (ComponentProfile& component : *profile->mutable_components()) {
      if (component.is_backbone()) return &component;
    }
    return nullptr;
  }
  void Time(const std::vector<int>& batches) {
    for (LayerProfile& layer : *Backbone(&stored_)->mutable_layers()) {
      layer.clear_timings();
      for (int batch : batches) layer.add_timings()->set_local_batch(batch);
    }
  }
  std::string Error(const std::vector<int>& batches = {1, 2, 4}) const {
    return std::string(CheckProfileMatches(stored_, here_, batches).message());
  }

  ModelProfile stored_, here_;
};

TEST_F(ProfileMatchTest, SameProfileMatchesForAnyNumberOfDevices) {
  EXPECT_EQ(Error(), "");
  here_.set_device("8 x 1-core CPU device");
  here_.set_model("another name");
  EXPECT_EQ(Error(), "");
  EXPECT_EQ(Error({2}), "");
}

TEST_F(ProfileMatchTest, NamesDifferentDeviceDTypeAndQuantum) {
  here_.set_device("2 x 4-core CPU device");
  EXPECT_EQ(Error(),
            "the device is 1-core CPU device in the stored file, but 4-core CPU device here");
  here_ = stored_;
  here_.set_dtype("bf16");
  EXPECT_EQ(Error(), "the dtype is fp32 in the stored file, but bf16 here");
  here_ = stored_;
  here_.set_frozen_quantum(4);
  EXPECT_EQ(Error(), "the frozen quantum is 2 in the stored file, but 4 here");
}

TEST_F(ProfileMatchTest, NamesDifferentComponentLayerOrValue) {
  const std::string name = Backbone(&here_)->name();
  const ModelProfile same = here_;
  Backbone(&here_)->mutable_layers(1)->set_name("attention");
  EXPECT_THAT(Error(), HasSubstr(name + ", layer 1: the name is "));
  EXPECT_THAT(Error(), HasSubstr("but attention here"));
  here_ = same;
  Backbone(&here_)->mutable_layers(2)->set_trainable_parameter_bytes(77);
  EXPECT_THAT(Error(), HasSubstr("the size of the trained parameters in bytes is 1000 in the"));
  here_ = same;
  Backbone(&here_)->mutable_layers(2)->set_kind(FROZEN_WITH_GRADIENT);
  EXPECT_THAT(Error(), HasSubstr("the kind is TRAINABLE in the stored file, but FROZEN_WITH_"));
  here_ = same;
  Backbone(&here_)->mutable_layers()->RemoveLast();
  EXPECT_EQ(Error(), name + ": the number of layers is 3 in the stored file, but 2 here");
  here_ = same;
  // For example, images of another size.
  Backbone(&here_)->mutable_values(0)->set_bytes_per_sample(400);
  EXPECT_THAT(Error(), HasSubstr(name + ", value 0 ("));
  EXPECT_THAT(Error(), HasSubstr("the bytes of a sample is 100 in the stored file, but 400 here"));
  here_ = same;
  Backbone(&here_)->mutable_values(0)->add_consumer_layers(2);
  EXPECT_THAT(Error(), HasSubstr("consumer_layers"));
  here_ = same;
  here_.mutable_components(0)->set_name("vae");
  EXPECT_THAT(Error(), HasSubstr("the list of components is "));
  here_ = same;
  here_.mutable_components()->RemoveLast();
  EXPECT_THAT(Error(), HasSubstr("the list of components is "));
}

TEST_F(ProfileMatchTest, NamesMissingLocalBatches) {
  const std::string name = Backbone(&here_)->name();
  Time({1, 2});
  EXPECT_EQ(Error(), name +
                         " was timed with local batches of 1, 2 in the stored file, but here "
                         "plans may have 1, 2, 4");
  Time({1, 4});
  EXPECT_THAT(Error(), HasSubstr("local batches of 1, 4 in"));
  Time({1, 2, 4});
  Backbone(&stored_)->mutable_layers(1)->mutable_timings()->RemoveLast();
  EXPECT_THAT(Error(), HasSubstr("local batches of 1, 2 in")) << "of every layer";
}

TEST_F(ProfileMatchTest, LocalBatchesWithoutMemoryAreNotMissing) {
  const std::string name = Backbone(&here_)->name();
  Time({1, 2});
  stored_.set_provenance("measured; " + LocalBatchesEndText(name, 4) + ", which would take 9 GiB");
  EXPECT_EQ(Error({1, 2, 4, 8}), "");
  EXPECT_THAT(Error({1, 2, 3}), HasSubstr("local batches of 1, 2 in"));
  stored_.set_provenance("measured; " + LocalBatchesEndText(name, 40) + ", which would take 9 GiB");
  EXPECT_THAT(Error(), HasSubstr("local batches of 1, 2 in"));
}

TEST(ClusterMatchTest, NamesDifferentNumberAndKindOfDevices) {
  ClusterSpec cluster = IdealCluster(4);
  cluster.set_collectives_use_compute(true);
  EXPECT_TRUE(CheckClusterMatches(cluster, 4, /*on_cpus=*/true).ok());
  EXPECT_EQ(std::string(CheckClusterMatches(cluster, 2, true).message()),
            "the number of devices is 4 in the stored file, but 2 here");
  EXPECT_EQ(std::string(CheckClusterMatches(cluster, 4, false).message()),
            "the kind of devices is CPUs in the stored file, but devices that compute while they "
            "communicate here");
  cluster.set_collectives(ClusterSpec::NCCL);
  EXPECT_THAT(std::string(CheckClusterMatches(cluster, 4, true).message()),
              HasSubstr("remove `collectives: NCCL` to plan what is run"));
}

}  // namespace
}  // namespace dpipe

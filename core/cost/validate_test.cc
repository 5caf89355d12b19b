#include "core/cost/validate.h"

#include <functional>
#include <limits>

#include "core/base/philox.h"
#include "core/cost/testing/fake_profile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const ModelProfile& profile) {
  return std::string(ValidateProfile(profile).message());
}

TEST(ValidateTest, RefusesWhatContradictsItself) {
  const ModelProfile good = UniformProfile({4, 1000, 500, 1});
  ModelProfile bad = good;
  bad.mutable_components(1)->mutable_layers(2)->mutable_timings(0)->set_forward_ns(-5);
  EXPECT_EQ(ErrorOf(bad),
            "component 'backbone', layer 2 'layer2': forward_ns is -5, which is less than 0");
  bad = good;
  bad.mutable_components(1)->mutable_layers(2)->add_timings()->set_local_batch(1);
  EXPECT_EQ(ErrorOf(bad),
            "component 'backbone', layer 2 'layer2': timings: local_batch 1 follows 1 and must be "
            "larger");
  bad = good;
  bad.mutable_components(1)->mutable_layers(0)->clear_timings();
  EXPECT_EQ(ErrorOf(bad), "component 'backbone', layer 0 'layer0': timings: there is none");
  bad = good;
  bad.mutable_components(1)->mutable_values(1)->add_consumer_layers(4);
  EXPECT_EQ(ErrorOf(bad),
            "component 'backbone', value 'x1': consumer_layers: 4 must be above 2 and below the "
            "number of layers, 4");
  bad = good;
  bad.mutable_components(1)->mutable_layers(0)->set_kind(static_cast<LayerKind>(9));
  EXPECT_EQ(ErrorOf(bad),
            "component 'backbone', layer 0 'layer0': kind is 9; it must be TRAINABLE, FROZEN or "
            "FROZEN_WITH_GRADIENT");
  bad = good;
  bad.mutable_components(0)->mutable_layers(0)->set_kind(TRAINABLE);
  EXPECT_NE(ErrorOf(bad).find("must be FROZEN"), std::string::npos);
  bad = good;
  bad.mutable_components(1)->set_is_backbone(false);
  EXPECT_EQ(ErrorOf(bad), "profile: none of its 2 components is a backbone");
  bad = good;
  for (ValueProfile& value : *bad.mutable_components(1)->mutable_values()) {
    if (value.name() == "encoded") value.set_source_component("decoder");
  }
  EXPECT_EQ(ErrorOf(bad),
            "component 'backbone', value 'encoded': source 'decoder.x0' names no component");
}

TEST(ValidateTest, RefusesACycleOfComponents) {
  ModelProfile profile = UniformProfile({4, 1000, 500, 1});
  ComponentProfile second = profile.components(0);
  second.set_name("second");
  ValueProfile* input = second.add_values();
  input->set_name("in");
  input->set_producer_layer(-1);
  input->set_source_component("encoder");
  input->set_source_value("x0");
  *profile.add_components() = second;
  EXPECT_EQ(ErrorOf(profile), "");
  *profile.mutable_components(0)->add_values() = *input;
  profile.mutable_components(0)->mutable_values(1)->set_source_component("second");
  EXPECT_NE(ErrorOf(profile).find("in a cycle"), std::string::npos) << ErrorOf(profile);
}

std::string ErrorOf(const ClusterSpec& cluster) {
  return std::string(ValidateCluster(cluster).message());
}

TEST(ValidateTest, RefusesClustersThatCannotBe) {
  ClusterSpec cluster = IdealCluster(2);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(0);
  EXPECT_EQ(ErrorOf(cluster),
            "cluster: intra_node: bandwidth_bytes_per_s is 0, which is not within [1000, 1e+18]; "
            "give what the link moves in a second, such as 2.4e11");
  for (const double bandwidth :
       {1e-300, 1e-6, 1.0, 999.0, -1e9, 1e19, std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(bandwidth);
    EXPECT_NE(ErrorOf(cluster).find("which is not within [1000, 1e+18]"), std::string::npos)
        << bandwidth;
  }
  cluster = IdealCluster(0);
  EXPECT_EQ(ErrorOf(cluster),
            "cluster: 1 nodes of 0 devices make no device; num_nodes and devices_per_node are at "
            "least 1");
  cluster = IdealCluster(1);
  cluster.set_contention_factor(0.5);
  EXPECT_EQ(ErrorOf(cluster),
            "cluster: contention_factor 0.5 is neither 0 nor within [1, 1000]; leave it out (0) if "
            "communicating does not slow computing");
  for (const double factor : {1e6, 1e12, -1.0, std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN()}) {
    cluster.set_contention_factor(factor);
    EXPECT_NE(ErrorOf(cluster).find("is neither 0 nor within [1, 1000]"), std::string::npos);
  }
}

TEST(ValidateTest, RefusesMoreDevicesThanArePlanned) {
  ClusterSpec cluster = IdealCluster(8);
  cluster.mutable_inter_node()->set_bandwidth_bytes_per_s(1e10);
  cluster.set_num_nodes(512);
  EXPECT_EQ(ErrorOf(cluster), "");
  cluster.set_num_nodes(100000);
  EXPECT_EQ(ErrorOf(cluster),
            "cluster: 100000 nodes of 8 devices are 800000 devices, more than 4096, the most that "
            "are planned; give a part of them, whose pipeline groups the others repeat");
  cluster.set_num_nodes(std::numeric_limits<int32_t>::max());
  cluster.set_devices_per_node(std::numeric_limits<int32_t>::max());
  EXPECT_NE(ErrorOf(cluster).find("are 4611686014132420609 devices"), std::string::npos);
}

TEST(ValidateTest, RefusesMemoryThatCannotBe) {
  ClusterSpec cluster = IdealCluster(2);
  cluster.set_memory_bytes_per_device(0);
  EXPECT_EQ(ErrorOf(cluster), "");
  cluster.set_memory_bytes_per_device(kMaxBytes);
  EXPECT_EQ(ErrorOf(cluster), "");
  cluster.set_memory_bytes_per_device(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(ErrorOf(cluster),
            "cluster: memory_bytes_per_device is 9223372036854775807, which is not within [0, "
            "281474976710656]; 0 means no limit");
  cluster.set_memory_bytes_per_device(-1);
  EXPECT_NE(ErrorOf(cluster).find("memory_bytes_per_device is -1,"), std::string::npos);
}

// What is trained must have something to train.
TEST(ValidateTest, RefusesABackboneThatIsFrozen) {
  for (const LayerKind kind : {FROZEN, FROZEN_WITH_GRADIENT}) {
    ModelProfile profile = UniformProfile({3, 1000, 500, 1});
    for (LayerProfile& layer : *profile.mutable_components(1)->mutable_layers()) {
      layer.set_kind(kind);
    }
    EXPECT_EQ(ErrorOf(profile),
              "component 'backbone': none of its 3 layers is TRAINABLE, and a backbone is what is "
              "trained; without is_backbone it is a frozen component");
    profile.mutable_components(1)->mutable_layers(2)->set_kind(TRAINABLE);
    EXPECT_EQ(ErrorOf(profile), "");
  }
}

TEST(ValidateTest, RefusesWhatIsNoNumber) {
  ModelProfile bad = UniformProfile();
  bad.set_optimizer_bytes_per_parameter(-4);
  EXPECT_EQ(ErrorOf(bad), "profile: optimizer_bytes_per_parameter -4 is not within [0, 1024]");
  bad.set_optimizer_bytes_per_parameter(0);
  bad.set_self_conditioning_probability(1.5);
  EXPECT_EQ(ErrorOf(bad), "profile: self_conditioning_probability 1.5 is not within [0, 1]");
  bad.set_self_conditioning_probability(std::numeric_limits<double>::quiet_NaN());
  EXPECT_NE(ErrorOf(bad), "");
  bad = UniformProfile();
  bad.mutable_components(0)->mutable_layers(0)->mutable_timings(0)->set_forward_ns(
      std::numeric_limits<int64_t>::max());
  EXPECT_NE(ErrorOf(bad).find("forward_ns is 9223372036854775807, which is more than"),
            std::string::npos)
      << ErrorOf(bad);
  bad = UniformProfile({4, 1000, 500, 1});
  bad.mutable_components(0)->set_self_conditioning_bytes_per_sample(3);
  EXPECT_EQ(ErrorOf(bad),
            "component 'encoder': self_conditioning_bytes_per_sample is 3 in a component that is "
            "no backbone");
  bad = UniformProfile();
  bad.mutable_components(0)->clear_name();
  EXPECT_EQ(ErrorOf(bad), "component 0: name is empty");
}

TEST(ValidateTest, RefusesClassesAndInterfacesThatCannotBe) {
  ClusterSpec cluster = IdealCluster(4);
  cluster.set_interfaces_per_node(3);
  EXPECT_EQ(ErrorOf(cluster),
            "cluster: interfaces_per_node 3 does not divide devices_per_node 4; leave it out (0) "
            "for one interface a node");
  cluster.set_interfaces_per_node(2);
  DeviceClass* first = cluster.add_device_classes();
  first->set_name("old");
  first->set_num_devices(3);
  EXPECT_EQ(ErrorOf(cluster),
            "cluster: device class 'old': speed 0 is not within [0.001, 1000]; give how many times "
            "as fast as the profile's device the class is");
  first->set_speed(0.5);
  EXPECT_EQ(ErrorOf(cluster), "");
  DeviceClass* second = cluster.add_device_classes();
  *second = *first;
  EXPECT_EQ(ErrorOf(cluster), "cluster: device class 'old': name: there are two of it");
  second->set_name("new");
  second->set_first_rank(2);
  EXPECT_EQ(ErrorOf(cluster),
            "cluster: device class 'new': 3 devices from rank 2 are not some of the cluster's 4");
  second->set_num_devices(2);
  EXPECT_EQ(ErrorOf(cluster), "cluster: device class 'new': rank 2 is in class 'old' already");
  cluster.set_num_nodes(1 << 30);
  EXPECT_EQ(ErrorOf(cluster),
            "cluster: 1073741824 nodes of 4 devices are 4294967296 devices, more than 4096, the "
            "most that are planned; give a part of them, whose pipeline groups the others repeat");
}

TEST(ValidateTest, RefusesSharedLinksThatCannotBe) {
  ClusterSpec cluster = IdealCluster(4);
  AddSharedLink("root", 3, 1e9, SharedLink::EVERYTHING, &cluster);
  EXPECT_EQ(ErrorOf(cluster),
            "cluster: shared link 'root': devices 3 does not divide devices_per_node 4; give how "
            "many devices of a node share one such link");
  cluster.mutable_shared_links(0)->set_devices(2);
  EXPECT_EQ(ErrorOf(cluster), "");
  AddSharedLink("root", 4, 1e9, SharedLink::LEAVING, &cluster);
  EXPECT_EQ(ErrorOf(cluster), "cluster: shared link 'root': name: there are two of it");
  cluster.mutable_shared_links(1)->set_name("switch");
  cluster.mutable_shared_links(1)->set_bandwidth_bytes_per_s(0.5);
  EXPECT_THAT(ErrorOf(cluster), HasSubstr("shared link 'switch': bandwidth_bytes_per_s is 0.5"));
}

// Random invalid fields of every kind are rejected or accepted, but never crash.
TEST(ValidateTest, RandomFieldsNeverCrash) {
  const int64_t values[] = {std::numeric_limits<int64_t>::min(), -1, 0, 1,
                            std::numeric_limits<int64_t>::max()};
  RandomStream stream(8, 0, 0, RandomPurpose::kTest);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    ModelProfile profile = RandomProfile(stream);
    ComponentProfile* component =
        profile.mutable_components(static_cast<int>(stream.NextBelow(profile.components_size())));
    LayerProfile* layer =
        component->mutable_layers(static_cast<int>(stream.NextBelow(component->layers_size())));
    ValueProfile* value =
        component->mutable_values(static_cast<int>(stream.NextBelow(component->values_size())));
    const int64_t number = values[stream.NextBelow(5)];
    const std::function<void()> damages[] = {
        [&] { layer->mutable_timings(0)->set_local_batch(static_cast<int32_t>(number)); },
        [&] { layer->mutable_timings(0)->set_input_grad_ns(number); },
        [&] { layer->set_parameter_bytes(number); },
        [&] { layer->set_kind(static_cast<LayerKind>(stream.NextBelow(4))); },
        [&] { value->set_producer_layer(static_cast<int32_t>(number)); },
        [&] { value->add_consumer_layers(static_cast<int32_t>(number)); },
        [&] { value->set_source_component("backbone"); },
        [&] { value->set_source_component("frozen0"); },
        [&] { component->set_is_backbone(!component->is_backbone()); },
        [&] { component->set_load_ns_per_sample(number); },
        [&] { profile.set_frozen_quantum(static_cast<int32_t>(number)); },
    };
    damages[stream.NextBelow(11)]();
    refused += !ValidateProfile(profile).ok();
  }
  EXPECT_GT(refused, 800);
}

}  // namespace
}  // namespace dpipe

#include "core/cost/cost_model.h"

#include "absl/strings/str_cat.h"
#include "core/cost/testing/fake_profile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::ElementsAre;

CostModel Make(const ModelProfile& profile, const ClusterSpec& cluster) {
  auto cost = CostModel::Create(profile, cluster);
  EXPECT_TRUE(cost.ok()) << cost.status();
  return *std::move(cost);
}

LayerProfile Layer(std::initializer_list<std::pair<int, Nanos>> forward_at) {
  LayerProfile layer;
  layer.set_kind(TRAINABLE);
  for (const auto& [batch, forward] : forward_at) {
    LayerTiming* timing = layer.add_timings();
    timing->set_local_batch(batch);
    timing->set_forward_ns(forward);
    timing->set_input_grad_ns(2 * forward);
    timing->set_weight_grad_ns(3 * forward);
  }
  return layer;
}

TEST(LayerTimesTest, PiecewiseLinearByHand) {
  const LayerProfile layer = Layer({{2, 100}, {4, 160}, {8, 400}});
  EXPECT_EQ(TimesOfLayer(layer, 1).forward, 100);  // below the smallest: equal to it
  EXPECT_EQ(TimesOfLayer(layer, 2).forward, 100);
  EXPECT_EQ(TimesOfLayer(layer, 3).forward, 130);
  EXPECT_EQ(TimesOfLayer(layer, 5).forward, 220);
  EXPECT_EQ(TimesOfLayer(layer, 8).forward, 400);
  EXPECT_EQ(TimesOfLayer(layer, 10).forward, 500);  // above the largest: 50 per sample
  EXPECT_EQ(TimesOfLayer(layer, 3).input_grad, 260);
  EXPECT_EQ(TimesOfLayer(layer, 3).weight_grad, 390);
  EXPECT_EQ(TimesOfLayer(Layer({{1, 10}, {4, 20}}), 2).forward, 14);  // 13.33 rounded up
  EXPECT_EQ(TimesOfLayer(Layer({{1, 20}, {4, 10}}), 2).forward, 17);  // 16.67, falling curves too
}

TEST(LayerTimesTest, KindsMaskGradients) {
  LayerProfile layer = Layer({{1, 10}});
  layer.set_kind(FROZEN_WITH_GRADIENT);
  EXPECT_EQ(TimesOfLayer(layer, 1).input_grad, 20);
  EXPECT_EQ(TimesOfLayer(layer, 1).weight_grad, 0);
  layer.set_kind(FROZEN);
  EXPECT_EQ(TimesOfLayer(layer, 1).input_grad, 0);
}

TEST(LayerTimesTest, LeastPerSampleIsNeverAboveAnyBatch) {
  for (int i = 0; i < 500; ++i) {
    RandomStream stream(3, i, 0, RandomPurpose::kTest);
    const ModelProfile profile = RandomProfile(stream);
    for (const LayerProfile& layer : profile.components(0).layers()) {
      const double least = MinForwardPerSample(layer, 1, 40);
      double brute = 1e300;
      for (int n = 1; n <= 40; ++n) {
        brute = std::min(brute, static_cast<double>(TimesOfLayer(layer, n).forward) / n);
      }
      EXPECT_LE(least, brute);
      EXPECT_GE(least, brute - 1.0001);  // rounding at a batch of 1 is the worst case
    }
  }
}

TEST(CostModelTest, RangesAreSumsOfLayers) {
  for (int i = 0; i < 200; ++i) {
    RandomStream stream(4, i, 0, RandomPurpose::kTest);
    const ModelProfile profile = RandomProfile(stream);
    const CostModel cost = Make(profile, IdealCluster(1));
    const int count = cost.num_layers(cost.backbone());
    const LayerRange range{count / 3, count};
    const int batch = 1 + i % 7;
    Nanos forward = 0, backward = 0;
    int64_t saved = 0, parameters = 0;
    for (int l = range.begin; l < range.end; ++l) {
      const LayerProfile& layer = profile.components(cost.backbone()).layers(l);
      const PassTimes times = TimesOfLayer(layer, batch);
      forward += times.forward;
      backward += times.input_grad + times.weight_grad;
      saved += layer.saved_bytes_per_sample();
      parameters += layer.parameter_bytes();
    }
    EXPECT_EQ(cost.Forward(cost.backbone(), range, batch), forward);
    EXPECT_EQ(cost.Backward(cost.backbone(), range, batch), backward);
    EXPECT_EQ(cost.SavedBytesPerSample(cost.backbone(), range), saved);
    EXPECT_EQ(cost.ParameterBytes(cost.backbone(), range), parameters);
  }
}

TEST(CostModelTest, ASkipIsLiveAtEveryCutItSpans) {
  ModelProfile profile = UniformProfile();  // 4 layers in a chain, values of 0 bytes
  ComponentProfile* backbone = profile.mutable_components(0);
  ValueProfile* skip = backbone->add_values();
  skip->set_name("skip");
  skip->set_bytes_per_sample(7);
  skip->set_producer_layer(0);
  skip->add_consumer_layers(1);
  skip->add_consumer_layers(2);
  ValueProfile* mask = backbone->add_values();
  mask->set_name("mask");
  mask->set_bytes_per_sample(100);
  mask->set_producer_layer(1);
  mask->add_consumer_layers(3);
  skip->set_has_gradient(true);
  const CostModel cost = Make(profile, IdealCluster(1));
  EXPECT_EQ(cost.CutBytesPerSample(0, 0), 0);
  EXPECT_EQ(cost.CutBytesPerSample(0, 1), 7);
  EXPECT_EQ(cost.CutBytesPerSample(0, 2), 107);
  EXPECT_EQ(cost.CutBytesPerSample(0, 3), 100);
  EXPECT_EQ(cost.CutGradientBytesPerSample(0, 2), 7);
  EXPECT_EQ(cost.CutGradientBytesPerSample(0, 3), 0);
  EXPECT_EQ(cost.ValuesAtCut(0, 2), (std::vector<int>{1, 3, 4}));
  // A sample that changes ranks takes along what later layers read, and all outputs so far.
  skip->set_is_output(true);
  const CostModel output = Make(profile, IdealCluster(1));
  EXPECT_EQ(output.MovedBytesPerSample(0, 1), 7);
  EXPECT_EQ(output.MovedBytesPerSample(0, 2), 107);
  EXPECT_EQ(output.MovedBytesPerSample(0, 3), 107);
  EXPECT_EQ(output.CutBytesPerSample(0, 3), 100);
}

TEST(CostModelTest, LinksAndCollectivesByHand) {
  ClusterSpec cluster;
  cluster.set_num_nodes(2);
  cluster.set_devices_per_node(2);
  cluster.mutable_intra_node()->set_latency_ns(10);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(2e9);  // 0.5 ns per byte
  cluster.mutable_inter_node()->set_latency_ns(100);
  cluster.mutable_inter_node()->set_bandwidth_bytes_per_s(1e9);
  const CostModel cost = Make(UniformProfile(), cluster);
  EXPECT_EQ(cost.Transfer(0, 1, 1000), 10 + 500);
  EXPECT_EQ(cost.Transfer(1, 2, 1000), 100 + 1000);
  EXPECT_EQ(cost.AllReduce({3}, 1000), 0);
  EXPECT_EQ(cost.AllReduce({0, 1}, 1000), 2 * 10 + 500);  // ring of 2: each half there and back
  EXPECT_EQ(cost.AllReduce({0, 2}, 1000), 2 * 100 + 1000);
  // Over 4 ranks on both nodes, one chunk: 2 (10 + 1/2 x 2000) within, 2 (100 + 4000) between.
  EXPECT_EQ(cost.AllReduce({0, 1, 2, 3}, 4000), 2 * 1010 + 2 * 4100);
  EXPECT_EQ(cost.AllReduce({0, 1, 2}, 4000), 4 * 100 + 5334);  // uneven nodes: 2 x 2/3 x 4000
  EXPECT_EQ(cost.AllReduce({0, 1, 2}, 3), 4 * 100 + 4);
  EXPECT_EQ(cost.GlobalNorm(), 2 * 10 + 2 * 100 + 16);
}

TEST(CostModelTest, SharedLinksByHand) {
  ClusterSpec cluster;
  cluster.set_num_nodes(2);
  cluster.set_devices_per_node(4);
  cluster.mutable_intra_node()->set_latency_ns(10);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e9);
  cluster.mutable_inter_node()->set_latency_ns(100);
  cluster.mutable_inter_node()->set_bandwidth_bytes_per_s(1e9);
  AddSharedLink("port", 2, 2e9, SharedLink::LEAVING, &cluster);
  AddSharedLink("root", 4, 5e8, SharedLink::EVERYTHING, &cluster);
  const CostModel cost = Make(UniformProfile(), cluster);
  EXPECT_EQ(cost.Transfer(0, 1, 1000), 10 + 2000);  // the root is the slowest on the way
  const auto links_of = [&](int from, int to) {
    std::vector<CostModel::LinkUse> uses;
    cost.AppendLinksOf(from, to, 1000, &uses);
    std::vector<std::string> names;
    for (const CostModel::LinkUse& use : uses) {
      names.push_back(absl::StrCat(cost.shared_links().NameOf(use.link), " ", use.duration_ns));
    }
    return names;
  };
  EXPECT_THAT(links_of(0, 1), ElementsAre("root of devices 0-3 2010"));
  EXPECT_THAT(links_of(1, 2),
              ElementsAre("port of devices 0-1 out 510", "port of devices 2-3 in 510",
                          "root of devices 0-3 2010"));
  EXPECT_THAT(links_of(7, 1),
              ElementsAre("interface 1 out 1100", "interface 0 in 1100",
                          "port of devices 6-7 out 600", "port of devices 0-1 in 600",
                          "root of devices 4-7 2100", "root of devices 0-3 2100"));
  std::vector<CostModel::LinkUse> uses;
  // Four edges through the root, each with 3/4 of the vector.
  EXPECT_EQ(cost.Collective(CollectiveKind::kAllGather, {0, 1, 2, 3}, 1000, &uses), 4 * 1500);
  ASSERT_EQ(uses.size(), 5);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(uses[i].duration_ns, 375);  // ports, out and in
  EXPECT_EQ(uses[4].duration_ns, 6000);
}

TEST(CostModelTest, GroupsThatShareALinkAreNotIndependent) {
  const auto identical = [](SharedLink::Carries carries) {
    ClusterSpec cluster = IdealCluster(8);
    AddSharedLink("root", 4, 1e9, carries, &cluster);
    const CostModel cost = Make(UniformProfile(), cluster);
    std::vector<int> sizes;
    for (int size : {1, 2, 4, 8}) {
      if (cost.HasIdenticalGroups(size)) sizes.push_back(size);
    }
    return sizes;
  };
  EXPECT_THAT(identical(SharedLink::EVERYTHING), ElementsAre(1, 4, 8));
  EXPECT_THAT(identical(SharedLink::LEAVING), ElementsAre(1, 2, 4, 8));  // a pair stays within
  ClusterSpec cluster = IdealCluster(8);
  AddSharedLink("root", 4, 1e9, SharedLink::EVERYTHING, &cluster);
  const CostModel whole = Make(UniformProfile(), cluster);
  EXPECT_EQ(whole.ForOneGroup(1).AllReduce({0}, 1000),
            whole.AllReduce({0, 1, 2, 3, 4, 5, 6, 7}, 1000));
  EXPECT_EQ(whole.ForOneGroup(4).AllReduce({1}, 1000), whole.AllReduce({1, 5}, 1000));
  EXPECT_EQ(whole.ForOneGroup(4).Transfer(1, 2, 1000), 1000);
}

TEST(CostModelTest, StageMemoryByHand) {
  UniformProfileOptions options;
  options.parameter_bytes = 100;
  options.saved_bytes = 10;
  ModelProfile profile = UniformProfile(options);
  profile.mutable_components(0)->mutable_layers(1)->set_workspace_bytes_per_sample(5);
  // Two layers: masters 200, gradients and two moments 600; 3 in flight x 4 samples x 20; workspace
  // 4 x 5.
  EXPECT_EQ(Make(profile, IdealCluster(1)).StageBytes(0, {0, 2}, 4, 3), 800 + 240 + 20);
  profile.set_dtype("bf16");
  EXPECT_EQ(Make(profile, IdealCluster(1)).StageBytes(0, {0, 2}, 4, 3), 900 + 240 + 20);
}

TEST(CostModelTest, SourcesOrderAndOutputs) {
  ModelProfile profile =
      UniformProfile({4, 1000, 500, /*frozen_layers=*/2, 1000, /*value_bytes=*/8});
  const CostModel cost = Make(profile, IdealCluster(1));
  EXPECT_EQ(cost.backbone(), 1);
  EXPECT_EQ(cost.frozen_components(), (std::vector<int>{0}));
  EXPECT_EQ(cost.SourcesOf(1, {0, 1}), (std::vector<int>{0}));
  EXPECT_TRUE(cost.SourcesOf(1, {1, 4}).empty());
  EXPECT_EQ(cost.OutputBytesPerSample(0), 8);
}

TEST(CostModelTest, SeveralBackbonesHaveBytesOfTheirOwn) {
  UniformProfileOptions options;
  options.parameter_bytes = 100;
  ModelProfile profile = UniformProfile(options);
  options.num_layers = 2;
  options.parameter_bytes = 30;
  *profile.add_components() = UniformProfile(options).components(0);
  profile.mutable_components(1)->set_name("second");
  profile.mutable_components(1)->mutable_layers(1)->set_optimizer_step_ns(7);
  profile.set_optimizer_fixed_ns(5);
  const CostModel cost = Make(profile, IdealCluster(1));
  EXPECT_EQ(cost.backbones(), (std::vector<int>{0, 1}));
  EXPECT_EQ(cost.backbone(), 0);
  EXPECT_EQ(cost.GradientBytes(0, {0, 2}), 200);
  EXPECT_EQ(cost.GradientBytes(1, {0, 2}), 60);
  EXPECT_EQ(cost.StateBytes(1, {1, 2}), 120);
  profile.set_optimizer_bytes_per_parameter(8.0 / 3);  // of 7.5 parameters
  EXPECT_EQ(Make(profile, IdealCluster(1)).StateBytes(1, {1, 2}), 80);
  EXPECT_EQ(cost.OptimizerShare(1, {0, 2}), 7);
  EXPECT_EQ(cost.Optimizer(1, {0, 2}), 12);
  EXPECT_EQ(cost.OptimizerShare(1, {0, 2}, 2), 4);  // the larger half
  EXPECT_EQ(cost.Optimizer(1, {0, 2}, 2), 9);
}

TEST(CostModelTest, DeviceClassesByHand) {
  ClusterSpec cluster = IdealCluster(4);
  cluster.set_memory_bytes_per_device(1000);
  DeviceClass* quick = cluster.add_device_classes();
  quick->set_first_rank(1);
  quick->set_num_devices(2);
  quick->set_speed(1.5);
  quick->set_memory_bytes(400);
  const CostModel cost = Make(UniformProfile(), cluster);
  EXPECT_FALSE(cost.IsUniform());
  EXPECT_EQ(cost.SpeedOf(0), 1);
  EXPECT_EQ(cost.SpeedOf(2), 1.5);
  EXPECT_EQ(cost.MemoryLimitOf(2), 400);
  EXPECT_EQ(cost.MemoryLimitOf(3), 1000);
  EXPECT_EQ(cost.OnRank(1000, 3), 1000);
  EXPECT_EQ(cost.OnRank(1000, 1), 667);
  Plan plan;
  plan.add_stages()->set_component(0);
  Instruction pass;
  pass.set_kind(Instruction::RECOMPUTE);
  pass.mutable_samples()->set_end(3);
  pass.mutable_layers()->set_end(2);
  EXPECT_EQ(cost.InstructionTime(plan, pass, 0), 6000);
  EXPECT_EQ(cost.InstructionTime(plan, pass, 1), 4000);
}

TEST(CostModelTest, PartsOnADeviceNeverTakeLessThanTheWhole) {
  RandomStream stream(6, 0, 0, RandomPurpose::kTest);
  for (int i = 0; i < 1000; ++i) {
    ClusterSpec cluster = IdealCluster(1);
    DeviceClass* only = cluster.add_device_classes();
    only->set_num_devices(1);
    only->set_speed(0.01 + 3 * stream.NextUniform());
    const CostModel cost = Make(UniformProfile({1}), cluster);
    const Nanos a = stream.NextBelow(1000000), b = stream.NextBelow(1000000);
    EXPECT_GE(cost.OnRank(a, 0) + cost.OnRank(b, 0), cost.OnRank(a + b, 0));
    EXPECT_NEAR(static_cast<double>(cost.OnRank(a, 0)), static_cast<double>(a) / only->speed(), 2);
  }
}

TEST(CostModelTest, OneOfManyGroupsSpeaksForAll) {
  ClusterSpec cluster = IdealCluster(8);
  cluster.set_num_nodes(4);
  cluster.mutable_inter_node()->set_latency_ns(1000);
  cluster.mutable_inter_node()->set_bandwidth_bytes_per_s(1e9);
  const CostModel whole = *CostModel::Create(UniformProfile({}), cluster);
  EXPECT_TRUE(whole.HasIdenticalGroups(4));
  EXPECT_TRUE(whole.HasIdenticalGroups(16));
  EXPECT_FALSE(whole.HasIdenticalGroups(5));
  const CostModel four = whole.ForOneGroup(4);
  EXPECT_EQ(four.num_devices(), 4);
  EXPECT_EQ(four.num_groups(), 8);
  EXPECT_EQ(four.AllReduce({1}, 1000000), whole.AllReduce({1, 5, 9, 13, 17, 21, 25, 29}, 1000000));
  EXPECT_EQ(four.GlobalNorm(), whole.GlobalNorm());
  const CostModel sixteen = whole.ForOneGroup(16);
  EXPECT_EQ(sixteen.num_groups(), 2);
  EXPECT_EQ(sixteen.AllReduce({3, 4}, 500), whole.AllReduce({3, 4, 19, 20}, 500));
  EXPECT_EQ(sixteen.Transfer(7, 8, 4096), whole.Transfer(7, 8, 4096));
  EXPECT_EQ(sixteen.NodeOf(9), 1);
}

TEST(CostModelTest, GroupsThatLieOrRunUnlikeAreNotAlike) {
  ClusterSpec cluster = IdealCluster(8);
  cluster.set_interfaces_per_node(2);
  // Groups of 2 share an interface in pairs, groups of 8 have both.
  const CostModel shared = *CostModel::Create(UniformProfile({}), cluster);
  EXPECT_TRUE(shared.HasIdenticalGroups(2));
  EXPECT_TRUE(shared.HasIdenticalGroups(8));
  DeviceClass* slow = cluster.add_device_classes();
  slow->set_name("slow");
  slow->set_num_devices(4);
  slow->set_speed(0.5);
  EXPECT_FALSE((*CostModel::Create(UniformProfile({}), cluster)).HasIdenticalGroups(4));
}

}  // namespace
}  // namespace dpipe

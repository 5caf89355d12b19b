#include "core/cost/cost_model.h"

#include "core/cost/fake_profile.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

CostModel Make(const ModelProfile& profile, const ClusterSpec& cluster) {
  auto cost = CostModel::Create(profile, cluster);
  EXPECT_TRUE(cost.ok()) << cost.status();
  return *std::move(cost);
}

std::string ErrorOf(const ModelProfile& profile, const ClusterSpec& cluster = IdealCluster(1)) {
  return std::string(CostModel::Create(profile, cluster).status().message());
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
  EXPECT_EQ(TimesOfLayer(layer, 1).forward, 100);  // below the smallest: that one's
  EXPECT_EQ(TimesOfLayer(layer, 2).forward, 100);
  EXPECT_EQ(TimesOfLayer(layer, 3).forward, 130);
  EXPECT_EQ(TimesOfLayer(layer, 5).forward, 220);
  EXPECT_EQ(TimesOfLayer(layer, 8).forward, 400);
  EXPECT_EQ(TimesOfLayer(layer, 10).forward, 500);  // above the largest: 50 a sample
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
      const double least = LeastForwardPerSample(layer, 1, 40);
      double brute = 1e300;
      for (int n = 1; n <= 40; ++n) {
        brute = std::min(brute, static_cast<double>(TimesOfLayer(layer, n).forward) / n);
      }
      EXPECT_LE(least, brute);
      EXPECT_GE(least, brute - 1.0001);  // rounding, at a batch of 1 at worst
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
}

TEST(CostModelTest, LinksAndCollectivesByHand) {
  ClusterSpec cluster;
  cluster.set_num_nodes(2);
  cluster.set_devices_per_node(2);
  cluster.mutable_intra_node()->set_latency_ns(10);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(2e9);  // 0.5 ns a byte
  cluster.mutable_inter_node()->set_latency_ns(100);
  cluster.mutable_inter_node()->set_bandwidth_bytes_per_s(1e9);
  const CostModel cost = Make(UniformProfile(), cluster);
  EXPECT_EQ(cost.Transfer(0, 1, 1000), 10 + 500);
  EXPECT_EQ(cost.Transfer(1, 2, 1000), 100 + 1000);
  EXPECT_EQ(cost.AllReduce({3}, 1000), 0);
  EXPECT_EQ(cost.AllReduce({0, 1}, 1000), 2 * 10 + 500);  // ring of 2: each half there and back
  EXPECT_EQ(cost.AllReduce({0, 2}, 1000), 2 * 100 + 1000);
  // Of 4 over both nodes: ring 6 x 100 + 2 x 3/4 x 4000; tree 4 x 100 + 2 x 4000.
  EXPECT_EQ(cost.AllReduce({0, 1, 2, 3}, 4000), 600 + 6000);
  EXPECT_EQ(cost.AllReduce({0, 1, 2, 3}, 8), 400 + 16);  // small: the tree's fewer steps
  EXPECT_EQ(cost.GlobalNorm(), 416);
}

TEST(CostModelTest, StageMemoryByHand) {
  UniformProfileOptions options;
  options.parameter_bytes = 100;
  options.saved_bytes = 10;
  ModelProfile profile = UniformProfile(options);
  profile.mutable_components(0)->mutable_layers(1)->set_workspace_bytes_per_sample(5);
  // Two layers: masters 200, gradients and two moments 600; 3 in flight x 4 samples x 20; workspace
  // 4 x 5.
  EXPECT_EQ(Make(profile, IdealCluster(1)).StageBytes({0, 2}, 4, 3), 800 + 240 + 20);
  profile.set_dtype("bf16");
  EXPECT_EQ(Make(profile, IdealCluster(1)).StageBytes({0, 2}, 4, 3), 900 + 240 + 20);
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

TEST(CostModelTest, RefusesWhatContradictsItself) {
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
  bad.mutable_components(0)->mutable_layers(0)->set_kind(TRAINABLE);
  EXPECT_NE(ErrorOf(bad).find("must be FROZEN"), std::string::npos);
  bad = good;
  bad.mutable_components(0)->set_is_backbone(true);
  EXPECT_NE(ErrorOf(bad).find("it has 2 backbones and must have 1"), std::string::npos)
      << ErrorOf(bad);
  bad = good;
  for (ValueProfile& value : *bad.mutable_components(1)->mutable_values()) {
    if (value.name() == "encoded") value.set_source_component("decoder");
  }
  EXPECT_EQ(ErrorOf(bad),
            "component 'backbone', value 'encoded': source 'decoder.x0' names no component");
}

TEST(CostModelTest, RefusesACycleOfComponents) {
  RandomStream stream(5, 0, 0, RandomPurpose::kTest);
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

TEST(CostModelTest, RefusesClustersThatCannotBe) {
  ClusterSpec cluster = IdealCluster(2);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(0);
  EXPECT_EQ(ErrorOf(UniformProfile(), cluster),
            "cluster: intra_node: bandwidth_bytes_per_s is 0, which is not above 0");
  cluster = IdealCluster(0);
  EXPECT_EQ(ErrorOf(UniformProfile(), cluster), "cluster: 1 nodes of 0 devices make no device");
  cluster = IdealCluster(1);
  cluster.set_contention_factor(0.5);
  EXPECT_EQ(ErrorOf(UniformProfile(), cluster),
            "cluster: contention_factor 0.5 is neither 0 nor at least 1");
}

}  // namespace
}  // namespace dpipe

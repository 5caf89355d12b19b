#include "core/sim/work_bound.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Two trainable layers: passes take 10 + 2 n, 4 n and 6 n for n samples, the optimizer 1. One
// frozen layer: 8 n.
ModelProfile SmallModel() {
  ModelProfile model;
  model.set_model("small");
  ComponentProfile* backbone = model.add_components();
  backbone->set_name("backbone");
  backbone->set_is_backbone(true);
  ComponentProfile* frozen = model.add_components();
  frozen->set_name("frozen");
  for (ComponentProfile* component : {backbone, backbone, frozen}) {
    LayerProfile* layer = component->add_layers();
    layer->set_name("layer" + std::to_string(component->layers_size()));
    const bool trainable = component == backbone;
    layer->set_kind(trainable ? TRAINABLE : FROZEN);
    if (trainable) layer->set_optimizer_step_ns(1000);
    for (int n : {1, 2, 4, 8}) {
      LayerTiming* timing = layer->add_timings();
      timing->set_local_batch(n);
      timing->set_forward_ns(trainable ? 10000 + 2000 * n : 8000 * n);
      if (trainable) timing->set_input_grad_ns(4000 * n);
      if (trainable) timing->set_weight_grad_ns(6000 * n);
    }
  }
  return model;
}

ClusterSpec Devices(int count) {
  ClusterSpec cluster;
  cluster.set_num_nodes(1);
  cluster.set_devices_per_node(count);
  cluster.mutable_intra_node()->set_latency_ns(10);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e12);
  cluster.mutable_inter_node()->set_latency_ns(10);
  cluster.mutable_inter_node()->set_bandwidth_bytes_per_s(1e12);
  return cluster;
}

TEST(WorkBoundTest, ByHand) {
  const auto cost = CostModel::Create(SmallModel(), Devices(2));
  ASSERT_TRUE(cost.ok()) << cost.status();
  // 8 samples two at a time: 4 x 2 layers x (14 + 8 + 12), 2 for the optimizer, 64 frozen. Frozen
  // layers' minimum times are rounded down, by at most one nanosecond per sample.
  EXPECT_NEAR(WorkBound(*cost, 8, 2), (4 * 2 * 34000 + 2000 + 64000) / 2, 4);
  EXPECT_LE(WorkBound(*cost, 8, 2), (4 * 2 * 34000 + 2000 + 64000) / 2);
  // Free: all eight at once cost a single launch.
  EXPECT_NEAR(WorkBound(*cost, 8, 0), (2 * (26000 + 80000) + 2000 + 64000) / 2, 4);
}

}  // namespace
}  // namespace dpipe

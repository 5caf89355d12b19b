#include "core/sim/lower_bound.h"

#include <algorithm>
#include <vector>

#include "core/base/philox.h"
#include "core/cost/testing/fake_profile.h"
#include "core/schedule/generators.h"
#include "core/schedule/lowering/lower.h"
#include "core/schedule/testing/random_plan.h"
#include "core/schedule/testing/random_schedule.h"
#include "core/sim/simulator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {

namespace {

using ::testing::ElementsAre;

TEST(LowerBoundTest, NoSimulatedStepBeatsIt) {
  int tight = 0;
  constexpr int kInstances = 3000;
  for (int i = 0; i < kInstances; ++i) {
    RandomStream stream(11, i, 0, RandomPurpose::kTest);
    const RandomInstance instance = MakeRandomInstance(stream);
    const auto cost = CostModel::Create(instance.profile, instance.cluster);
    ASSERT_TRUE(cost.ok()) << cost.status();
    const StepBound bound = StepLowerBound(instance.plan, *cost);
    const auto steady = SimulateSteadyState(instance.plan, *cost);
    ASSERT_TRUE(steady.ok()) << i << ": " << steady.status();
    ASSERT_GE(steady->stats.step_ns, bound.bound_ns) << "instance " << i;
    const auto training = Simulate(instance.plan, *cost);
    ASSERT_TRUE(training.ok()) << i << ": " << training.status();
    ASSERT_GE(training->stats.step_ns, bound.bound_ns) << "instance " << i;
    tight += steady->stats.step_ns == bound.bound_ns;
  }
  // A bound that is never attained would not be worth printing.
  EXPECT_GT(tight, kInstances / 100);
}

Plan Lowered(const CostModel& cost, const Schedule& schedule, const LayoutOptions& options,
             bool global_norm = false) {
  LowerOptions lower;
  lower.global_norm = global_norm;
  const auto layout = MakeLayout(schedule, options);
  EXPECT_TRUE(layout.ok()) << layout.status();
  auto plan = LowerPlan(*layout, schedule, lower, cost);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

TEST(LowerBoundTest, UnitCostsReachIt) {
  for (int p = 1; p <= 5; ++p) {
    for (int m = 1; m <= 6; ++m) {
      const auto cost = CostModel::Create(UniformProfile({p}), IdealCluster(p));
      LayoutOptions options;
      options.num_devices = p;
      for (int s = 0; s < p; ++s) options.layers.push_back({s, s + 1});
      const Plan plan = Lowered(*cost, *MakeSchedule("1f1b", {p, m}), options);
      const StepBound bound = StepLowerBound(plan, *cost);
      // An empty message takes no time, so the ways in and out consist of passes alone.
      EXPECT_EQ(bound.bound_ns, (m + p - 1) * 2000);
      EXPECT_EQ(bound.device_ns, m * 2000);
      EXPECT_EQ(bound.work_ns, m * 2000);
      EXPECT_EQ(bound.micro_batch_path_ns, p * 2000);
    }
  }
}

// One chain of four stages on devices 0, 1, 1, 0; passes take 1000, messages 100.
TEST(LowerBoundTest, StagesOfADeviceAreCountedTogether) {
  ClusterSpec cluster = IdealCluster(2);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e9);
  UniformProfileOptions profile;
  profile.value_bytes = 100;
  const auto cost = CostModel::Create(UniformProfile(profile), cluster);
  LayoutOptions options;
  options.num_devices = 2;
  options.layers = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
  ScheduleChain chain;
  chain.devices = {0, 1, 1, 0};
  chain.num_micro_batches = 3;
  RandomStream stream(12, 0, 0, RandomPurpose::kTest);
  const Schedule schedule = RandomOrder(stream, {chain}, 2, /*split_gradients=*/false);
  const StepBound bound = StepLowerBound(Lowered(*cost, schedule, options), *cost);
  // Device 1: in through stage 0, 3 x (2 + 2) passes, out through stage 0.
  EXPECT_EQ(bound.path_ns[1], 1100 + 12000 + 1100);
  EXPECT_EQ(bound.path_ns[2], bound.path_ns[1]);
  EXPECT_EQ(bound.path_ns[0], 12000);  // nothing before the chain's beginning
  EXPECT_EQ(bound.micro_batch_path_ns, 8000 + 4 * 100);
  // Recomputation counts as work.
  options.recompute = std::vector<bool>(4, true);
  EXPECT_EQ(StepLowerBound(Lowered(*cost, schedule, options), *cost).path_ns[1],
            1100 + 18000 + 1100);
}

TEST(LowerBoundTest, FrozenWorkPrefersFastDevices) {
  ClusterSpec cluster = IdealCluster(2);
  DeviceClass* quick = cluster.add_device_classes();
  quick->set_num_devices(1);
  quick->set_speed(3);
  UniformProfileOptions profile;
  profile.num_layers = 2;
  profile.frozen_layers = 1;
  profile.frozen_ns = 100000;
  const auto cost = CostModel::Create(UniformProfile(profile), cluster);
  LayoutOptions options;
  options.num_devices = 2;
  options.layers = {{0, 1}, {1, 2}};
  const Plan plan = Lowered(*cost, *MakeSchedule("1f1b", {2, 1}), options);
  // 100,000 of frozen work and 2 x 2000 of passes at speeds 3 and 1. Rounding costs 1 ns of the
  // frozen work and a relative 1e-6.
  EXPECT_NEAR(StepLowerBound(plan, *cost).work_ns, 104000 / 4, 2);
}

// Returns the terms in the order of StepBound's fields, with the longest path.
std::vector<Nanos> Terms(const StepBound& bound) {
  return {bound.work_ns, bound.device_ns,
          *std::max_element(bound.path_ns.begin(), bound.path_ns.end()), bound.common_ns,
          bound.micro_batch_path_ns};
}

// Layers of 1000 each way, one per stage, in the order of the chains. `stage_devices` has one list
// of devices per chain.
StepBound BoundOf(const ModelProfile& profile, const std::vector<std::vector<int>>& stage_devices,
                  int num_micro_batches, bool global_norm = false) {
  LayoutOptions options;
  std::vector<ScheduleChain> chains;
  for (const std::vector<int>& devices : stage_devices) {
    for (int s = 0; s < static_cast<int>(devices.size()); ++s) options.layers.push_back({s, s + 1});
    options.num_devices =
        std::max(options.num_devices, 1 + *std::max_element(devices.begin(), devices.end()));
    chains.emplace_back();
    chains.back().devices = devices;
    chains.back().num_micro_batches = num_micro_batches;
  }
  const auto cost = CostModel::Create(profile, IdealCluster(options.num_devices));
  EXPECT_TRUE(cost.ok()) << cost.status();
  RandomStream stream(13, 0, 0, RandomPurpose::kTest);
  const Schedule schedule = RandomOrder(stream, chains, options.num_devices,
                                        /*split_gradients=*/false);
  return StepLowerBound(Lowered(*cost, schedule, options, global_norm), *cost);
}

ModelProfile Layers(int num_layers) {
  UniformProfileOptions options;
  options.num_layers = num_layers;
  return UniformProfile(options);
}

// Rounding costs one nanosecond of the frozen work.
TEST(LowerBoundTest, WorkIsTheBoundIfMostWorkIsFrozen) {
  UniformProfileOptions frozen;
  frozen.num_layers = 2;
  frozen.frozen_layers = 1;
  frozen.frozen_ns = 100000;
  const StepBound bound = BoundOf(UniformProfile(frozen), {{0, 1}}, 1);
  EXPECT_THAT(Terms(bound), ElementsAre((100000 + 4000) / 2 - 1, 2000, 4000, 0, 4000));
  EXPECT_EQ(bound.bound_ns, bound.work_ns);
}

TEST(LowerBoundTest, DeviceIsTheBoundIfItsOptimizerIsSlow) {
  ModelProfile profile = Layers(2);
  profile.mutable_components(0)->mutable_layers(1)->set_optimizer_step_ns(100000);
  const StepBound bound = BoundOf(profile, {{0, 1}}, 2);
  EXPECT_THAT(Terms(bound), ElementsAre((8000 + 100000) / 2, 104000, 6000, 0, 4000));
  EXPECT_EQ(bound.bound_ns, bound.device_ns);
}

TEST(LowerBoundTest, PathIsTheBoundOfAShortPipeline) {
  const StepBound bound = BoundOf(Layers(2), {{0, 1}}, 2);
  EXPECT_THAT(Terms(bound), ElementsAre(4000, 4000, 6000, 0, 4000));
  EXPECT_EQ(bound.bound_ns, bound.path_ns[1]);
}

// Two chains in opposite directions. Devices 1 and 2 hold a second and a third stage. Each can
// begin after one forward pass and must leave one backward pass to others, with all 6 micro-batches
// between. A single chain has only 3 of them, but at its last stage three passes before and three
// after.
TEST(LowerBoundTest, CommonPartOfChainsIsTheBoundWithAGlobalNorm) {
  const StepBound bound = BoundOf(Layers(4), {{0, 1, 2, 3}, {3, 2, 1, 0}}, 3, /*global_norm=*/true);
  const Nanos norm = 1;  // of an all-reduce that takes no time, at least a nanosecond
  EXPECT_THAT(Terms(bound), ElementsAre(12000, 12000 + norm, 3000 + 6000 + 3000 + norm,
                                        1000 + 12000 + 1000 + norm, 8000 + norm));
  EXPECT_EQ(bound.bound_ns, bound.common_ns);
}

// A single micro-batch passes both of device 0's stages, and device 1 between them.
TEST(LowerBoundTest, MicroBatchPathIsTheBoundOfOneMicroBatch) {
  const StepBound bound = BoundOf(Layers(4), {{0, 1, 1, 0}}, 1);
  EXPECT_THAT(Terms(bound), ElementsAre(4000, 4000, 1000 + 4000 + 1000, 0, 8000));
  EXPECT_EQ(bound.bound_ns, bound.micro_batch_path_ns);
}

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

#include "core/sim/lower_bound.h"

#include "core/base/philox.h"
#include "core/cost/fake_profile.h"
#include "core/schedule/generators.h"
#include "core/schedule/lower.h"
#include "core/schedule/random_plan.h"
#include "core/schedule/random_schedule.h"
#include "core/sim/simulator.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

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
  // A bound that is never reached would be no bound worth printing.
  EXPECT_GT(tight, kInstances / 100);
}

Plan Lowered(const CostModel& cost, const Schedule& schedule, const LayoutOptions& options) {
  LowerOptions lower;
  lower.global_norm = false;
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
      // A message of no bytes takes no time, so the way in and out are of passes alone.
      EXPECT_EQ(bound.bound_ns, (m + p - 1) * 2000);
      EXPECT_EQ(bound.device_ns, m * 2000);
      EXPECT_EQ(bound.work_ns, m * 2000);
      EXPECT_EQ(bound.micro_batch_path_ns, p * 2000);
    }
  }
}

// One chain of four stages on devices 0, 1, 1, 0; passes of 1000, messages of 100.
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
  // Recomputation is work.
  options.recompute = std::vector<bool>(4, true);
  EXPECT_EQ(StepLowerBound(Lowered(*cost, schedule, options), *cost).path_ns[1],
            1100 + 18000 + 1100);
}

TEST(LowerBoundTest, FrozenWorkGoesWhereSpeedIs) {
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
  // 100,000 of frozen work and 2 x 2000 of passes at speeds 3 and 1; rounding takes 1 ns of the
  // frozen work and one part in a million.
  EXPECT_NEAR(StepLowerBound(plan, *cost).work_ns, 104000 / 4, 2);
}

}  // namespace
}  // namespace dpipe

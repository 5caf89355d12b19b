#include "core/sim/simulator.h"

#include "core/base/philox.h"
#include "core/cost/fake_profile.h"
#include "core/schedule/generators.h"
#include "core/schedule/lower.h"
#include "core/schedule/random_plan.h"
#include "core/sim/annotate.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

struct Case {
  CostModel cost;
  Plan plan;
};

LowerOptions NoGlobalNorm() {
  LowerOptions options;
  options.global_norm = false;
  return options;
}

// `num_stages` stages of one layer each (forward 1000, backward 2 x 500) on an ideal cluster.
Case Uniform(const std::string& schedule, int num_stages, int num_micro_batches,
             const UniformProfileOptions& base = {}, const LowerOptions& options = NoGlobalNorm(),
             ClusterSpec cluster = {}) {
  UniformProfileOptions profile = base;
  profile.num_layers = num_stages;
  if (cluster.num_nodes() == 0) cluster = IdealCluster(num_stages);
  auto cost = CostModel::Create(UniformProfile(profile), cluster);
  EXPECT_TRUE(cost.ok()) << cost.status();
  std::vector<StraightStage> stages;
  for (int s = 0; s < num_stages; ++s) stages.push_back({{s, s + 1}, 1});
  const PipelineLayout layout = StraightLayout(num_stages, num_micro_batches, 1, stages);
  const auto order = MakeSchedule(schedule, {num_stages, num_micro_batches});
  EXPECT_TRUE(order.ok()) << order.status();
  auto plan = LowerPlan(layout, *order, options, *cost);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return {*std::move(cost), *std::move(plan)};
}

TEST(SimulatorTest, UnitCostsGiveTheClosedForms) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    for (int p = 1; p <= 6; ++p) {
      for (int m = 1; m <= 8; ++m) {
        const Case c = Uniform(schedule, p, m);
        const auto simulation = SimulateSteadyState(c.plan, c.cost);
        ASSERT_TRUE(simulation.ok()) << simulation.status();
        // F = B = 1000, so a step takes (m + p - 1) (F + B).
        EXPECT_EQ(simulation->stats.step_ns, (m + p - 1) * 2000) << schedule << p << m;
        EXPECT_NEAR(simulation->stats.bubble_ratio, (p - 1.0) / (m + p - 1), 1e-12);
      }
    }
  }
}

TEST(SimulatorTest, LinksByHand) {
  // Two stages, one micro-batch: F 1000, link, F 1000, B 1000, link, B 1000. A link moves 500 bytes
  // at 1e9 bytes/s after 100 ns: 600. An optimizer step costs nothing.
  ClusterSpec cluster = IdealCluster(2);
  cluster.mutable_intra_node()->set_latency_ns(100);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e9);
  UniformProfileOptions profile;
  profile.value_bytes = 500;
  const Case c = Uniform("1f1b", 2, 1, profile, NoGlobalNorm(), cluster);
  const auto simulation = Simulate(c.plan, c.cost);
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  EXPECT_EQ(simulation->stats.step_ns, 4000 + 2 * 600);
  // With a global norm, one small all-reduce more: 2 x latency + 8 bytes over the link (2 (n-1)/n =
  // 1).
  const Case norm = Uniform("1f1b", 2, 1, profile, {}, cluster);
  EXPECT_EQ(*SteadyStepTime(norm.plan, norm.cost), 4000 + 2 * 600 + 208);
}

TEST(SimulatorTest, CriticalPathCoversTheStepWithoutGaps) {
  const Case c = Uniform("1f1b", 3, 4);
  const auto simulation = Simulate(c.plan, c.cost);
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  Nanos sum = 0;
  for (const CriticalEvent& event : simulation->critical_path) {
    sum += event.wait_ns + event.event.end_ns - event.event.start_ns;
  }
  EXPECT_EQ(sum, simulation->stats.step_ns);
}

TEST(SimulatorTest, ContentionSlowsComputingWhileItLasts) {
  // One message of 400 ns while stage 0 computes its second forward pass, at factor 1.5: in these
  // 400 ns 266.67 ns of work are done, so 133.33 are added. Stage 0: F0 F1, stage 1: F0 meets the
  // message of F1.
  ClusterSpec cluster = IdealCluster(2);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e9);
  cluster.set_contention_factor(1.5);
  UniformProfileOptions profile;
  profile.value_bytes = 400;
  const Case c = Uniform("gpipe", 2, 2, profile, NoGlobalNorm(), cluster);
  SimulateOptions run;
  run.num_steps = 2;
  const auto simulation = Simulate(c.plan, c.cost, run);
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  Nanos second_forward_end = 0;
  for (const StreamEvent& event : simulation->events) {
    const Instruction& instruction = c.plan.devices(event.rank).instructions(event.instruction);
    if (event.rank == 0 && event.step == 0 && instruction.kind() == Instruction::FORWARD &&
        instruction.micro_batch() == 1) {
      second_forward_end = event.end_ns;
    }
  }
  EXPECT_EQ(second_forward_end, 2000 + 134);  // rounded up
}

// One pipeline of two stages with two replicas each, a stage to a node: every message crosses.
TEST(SimulatorTest, MessagesBetweenNodesShareTheInterface) {
  ClusterSpec cluster = IdealCluster(2);
  cluster.set_num_nodes(2);
  cluster.mutable_inter_node()->set_bandwidth_bytes_per_s(1e9);
  UniformProfileOptions options;
  options.num_layers = 2;
  options.value_bytes = 500;
  const auto cost = CostModel::Create(UniformProfile(options), cluster);
  const PipelineLayout layout = StraightLayout(4, 1, 2, {{{0, 1}, 2}, {{1, 2}, 2}});
  LowerOptions lower = NoGlobalNorm();
  lower.sync = SyncPolicy::kEnd;
  const auto plan = LowerPlan(layout, *MakeSchedule("1f1b", {2, 1}), lower, *cost);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto step = SteadyStepTime(*plan, *cost);
  ASSERT_TRUE(step.ok()) << step.status();
  // Four passes of 1000. Both activations are ready at once and go one after the other: 500 and
  // 1000. The gradients follow 500 apart as they were made, so nobody waits for the other: 500.
  EXPECT_EQ(*step, 4000 + 1000 + 500);
}

TEST(SimulatorTest, ReductionsOverlapUnlessTheyUseTheComputeStream) {
  // One stage of two layers on two ranks, one sample each; layer gradients of 100 bytes at 1e9
  // bytes/s: a ring of two takes 100 ns. F 2000, B of layer 1 1000, its reduction beside B of layer
  // 0 1000, whose own shows.
  UniformProfileOptions options;
  options.num_layers = 2;
  options.parameter_bytes = 100;
  ClusterSpec cluster = IdealCluster(2);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e9);
  const PipelineLayout layout = StraightLayout(2, 1, 1, {{{0, 2}, 1}});
  LowerOptions lower = NoGlobalNorm();
  lower.bucket_bytes = 100;
  for (bool use_compute : {false, true}) {
    cluster.set_collectives_use_compute(use_compute);
    const auto cost = CostModel::Create(UniformProfile(options), cluster);
    const auto plan = LowerPlan(layout, *MakeSchedule("single", {1, 1}), lower, *cost);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const auto simulation = SimulateSteadyState(*plan, *cost);
    ASSERT_TRUE(simulation.ok()) << simulation.status();
    EXPECT_EQ(simulation->stats.step_ns, 4000 + (use_compute ? 200 : 100));
    EXPECT_EQ(simulation->stats.busy_ns[0], 4000);  // a reduction is not work
  }
}

TEST(SimulatorTest, PrologueAndLastStepByHand) {
  // One device, one sample: F 1000, B 1000 and an encoder of 300 for the next step.
  UniformProfileOptions options;
  options.num_layers = 1;
  options.frozen_layers = 1;
  options.frozen_ns = 300;
  const auto cost = CostModel::Create(UniformProfile(options), IdealCluster(1));
  const PipelineLayout layout = StraightLayout(1, 1, 1, {{{0, 1}, 1}});
  LowerOptions lower = NoGlobalNorm();
  lower.frozen = FrozenPolicy::kFill;
  lower.fill = {{0, 1, true, 0, {}, {0, 1}, 1}, {0, 1, false, 0, {0, 1}, {0, 1}, 1}};
  const auto plan = LowerPlan(layout, *MakeSchedule("single", {1, 1}), lower, *cost);
  ASSERT_TRUE(plan.ok()) << plan.status();
  SimulateOptions run;
  run.num_steps = 4;
  const auto simulation = Simulate(*plan, *cost, run);
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  EXPECT_EQ(simulation->step_start_ns, (std::vector<Nanos>{300, 2600, 4900, 7200, 9200}));
  EXPECT_EQ(simulation->stats.step_ns, 2300);
  EXPECT_EQ(simulation->stats.num_steady_steps, 2);
  run.num_steps = 2;
  EXPECT_EQ(Simulate(*plan, *cost, run).status().message(),
            "num_steps 2 leaves no steady step; it takes 3");
}

TEST(SimulatorTest, SaysWhoWaitsForEver) {
  Case c = Uniform("1f1b", 2, 1);
  // The gradient is awaited before the forward pass that leads to it.
  c.plan.mutable_devices(0)->mutable_instructions()->SwapElements(0, 3);
  const auto simulation = Simulate(c.plan, c.cost);
  EXPECT_EQ(simulation.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(std::string(simulation.status().message()).find("rank 0 at instruction 0 of step 0"),
            std::string::npos)
      << simulation.status();
}

TEST(SimulatorTest, SameInputSameTrace) {
  RandomStream stream(7, 0, 0, RandomPurpose::kTest);
  const RandomInstance instance = MakeRandomInstance(stream);
  const auto cost = CostModel::Create(instance.profile, instance.cluster);
  const auto a = Simulate(instance.plan, *cost);
  const auto b = Simulate(instance.plan, *cost);
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  EXPECT_EQ(ToTrace(*a, instance.plan).SerializeAsString(),
            ToTrace(*b, instance.plan).SerializeAsString());
}

}  // namespace
}  // namespace dpipe

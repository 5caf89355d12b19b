#include "core/sim/simulator.h"

#include <algorithm>
#include <limits>
#include <map>

#include "core/base/philox.h"
#include "core/cost/testing/fake_profile.h"
#include "core/schedule/generators.h"
#include "core/schedule/lowering/lower.h"
#include "core/schedule/lowering/weave.h"
#include "core/schedule/testing/random_plan.h"
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

// Two virtual workers of one stage. F and B take 1000 each and an update 100. After every second
// update the 100 bytes of weights are shared, which takes 100 at 1e9 bytes/s; the next pass waits
// for it.
TEST(SimulatorTest, SharedUpdatesHoldUpTheNextPass) {
  UniformProfileOptions options;
  options.num_layers = 1;
  options.parameter_bytes = 100;
  ModelProfile profile = UniformProfile(options);
  profile.set_optimizer_fixed_ns(100);
  ClusterSpec cluster = IdealCluster(2);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e9);
  const auto cost = CostModel::Create(profile, cluster);
  ASSERT_TRUE(cost.ok()) << cost.status();
  LowerOptions lower = NoGlobalNorm();
  lower.sync = SyncPolicy::kEnd;
  lower.relaxation.emplace();
  lower.relaxation->set_weights(Relaxation::STASHED);
  lower.relaxation->set_micro_batches_per_update(1);
  lower.relaxation->set_updates_per_sync(2);
  const PipelineLayout layout = StraightLayout(2, 4, 1, {{{0, 1}, 1}});
  const auto plan = LowerPlan(layout, *MakeSchedule("1f1b", {1, 4}), lower, *cost);
  ASSERT_TRUE(plan.ok()) << plan.status();
  SimulateOptions run;
  run.num_steps = 3;
  const auto simulation = Simulate(*plan, *cost, run);
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  EXPECT_EQ(simulation->stats.step_ns, 4 * 2100 + 2 * 100);
  EXPECT_EQ(simulation->stats.busy_ns[0], 4 * 2100);
}

TEST(SimulatorTest, LinksByHand) {
  // Two stages, one micro-batch: F 1000, link, F 1000, B 1000, link, B 1000. A link moves 500 bytes
  // at 1e9 bytes/s with a latency of 100 ns: 600. An optimizer step costs nothing.
  ClusterSpec cluster = IdealCluster(2);
  cluster.mutable_intra_node()->set_latency_ns(100);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e9);
  UniformProfileOptions profile;
  profile.value_bytes = 500;
  const Case c = Uniform("1f1b", 2, 1, profile, NoGlobalNorm(), cluster);
  const auto simulation = Simulate(c.plan, c.cost);
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  EXPECT_EQ(simulation->stats.step_ns, 4000 + 2 * 600);
  // A global norm adds one small all-reduce: 2 x latency + 8 bytes over the link (2 (n-1)/n = 1).
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
  // The trace has the same path, as indices of its events.
  const Trace trace = ToTrace(*simulation, c.plan);
  ASSERT_EQ(trace.critical_path_size(), simulation->critical_path.size());
  Nanos end = -1;
  for (const CriticalLink& link : trace.critical_path()) {
    const TraceEvent& event = trace.events(link.event());
    if (end >= 0) {
      EXPECT_EQ(event.start_ns(), end + link.wait_ns());
    }
    end = event.end_ns();
  }
}

TEST(SimulatorTest, TracesHoldMemoryOverTime) {
  UniformProfileOptions profile;
  profile.saved_bytes = 100;
  const Case c = Uniform("gpipe", 2, 3, profile);
  const auto simulation = Simulate(c.plan, c.cost);
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  const Trace trace = ToTrace(*simulation, c.plan);
  std::vector<int64_t> held(2, -1), peak(2, 0);
  Nanos time = 0;
  for (const MemorySample& sample : trace.memory()) {
    EXPECT_GE(sample.time_ns(), time);
    time = sample.time_ns();
    EXPECT_NE(sample.bytes(), held[sample.rank()]);  // only changes are recorded
    held[sample.rank()] = sample.bytes();
    peak[sample.rank()] = std::max<int64_t>(peak[sample.rank()], sample.bytes());
  }
  for (int rank : {0, 1}) EXPECT_EQ(peak[rank], trace.peak_memory_bytes(rank));
  EXPECT_GE(peak[0], 300);
}

TEST(SimulatorTest, ContentionSlowsComputationWhileItLasts) {
  // One message of 400 ns overlaps stage 0's second forward pass, at factor 1.5. In these 400 ns
  // only 266.67 ns of work are done, so 133.33 are added. Stage 0 runs F0 F1; on stage 1, F0 meets
  // the message of F1.
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

// One chain of four stages in a V on two devices: 0, 1, 1, 0.
TEST(SimulatorTest, TurnOfAVShapeNeedsNoMessage) {
  ClusterSpec cluster = IdealCluster(2);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e9);
  UniformProfileOptions options;
  options.value_bytes = 500;
  const auto cost = CostModel::Create(UniformProfile(options), cluster);
  ScheduleChain chain;
  chain.devices = {0, 1, 1, 0};
  const Slot f[] = {{Pass::kForward, 0, 0},
                    {Pass::kForward, 0, 1},
                    {Pass::kForward, 0, 2},
                    {Pass::kForward, 0, 3}};
  const Slot b[] = {{Pass::kBackward, 0, 0},
                    {Pass::kBackward, 0, 1},
                    {Pass::kBackward, 0, 2},
                    {Pass::kBackward, 0, 3}};
  const auto schedule =
      Schedule::Create("v", {chain}, {{f[0], f[3], b[3], b[0]}, {f[1], f[2], b[2], b[1]}});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  LayoutOptions layout;
  layout.num_devices = 2;
  layout.layers = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
  for (bool recompute : {false, true}) {
    layout.recompute = std::vector<bool>(4, recompute);
    const auto placed = MakeLayout(*schedule, layout);
    ASSERT_TRUE(placed.ok()) << placed.status();
    const auto plan = LowerPlan(*placed, *schedule, NoGlobalNorm(), *cost);
    ASSERT_TRUE(plan.ok()) << plan.status();
    // Eight passes of 1000 one after another and four messages of 500; the turns cost none.
    // Recomputed forward passes show only at stages 3 and 1, whose gradients come from their own
    // rank. Those of stages 2 and 0 run while their rank waits for a gradient.
    const auto simulation = SimulateSteadyState(*plan, *cost);
    ASSERT_TRUE(simulation.ok()) << simulation.status();
    EXPECT_EQ(simulation->stats.step_ns, 8000 + 4 * 500 + (recompute ? 2000 : 0));
    EXPECT_EQ(simulation->stats.busy_ns[1], recompute ? 6000 : 4000);
  }
}

TEST(SimulatorTest, PassesTakeTheSpeedOfTheirRank) {
  ClusterSpec cluster = IdealCluster(2);
  DeviceClass* slow = cluster.add_device_classes();
  slow->set_first_rank(1);
  slow->set_num_devices(1);
  slow->set_speed(0.5);
  const Case c = Uniform("1f1b", 2, 1, {}, NoGlobalNorm(), cluster);
  EXPECT_EQ(*SteadyStepTime(c.plan, c.cost), 2000 + 4000);
}

// Weights of one stage on two ranks, gathered layer by layer ahead of use.
TEST(SimulatorTest, ComputationsWaitForGatheredParameters) {
  ClusterSpec cluster = IdealCluster(2);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e9);
  for (bool use_compute : {false, true}) {
    cluster.set_collectives_use_compute(use_compute);
    UniformProfileOptions options;
    options.num_layers = 2;
    const auto cost = CostModel::Create(UniformProfile(options), cluster);
    const PipelineLayout layout = StraightLayout(2, 1, 1, {{{0, 2}, 1}});
    Plan plan = *LowerPlan(layout, *MakeSchedule("single", {1, 1}), NoGlobalNorm(), *cost);
    plan.mutable_stages(0)->set_sharded(true);
    for (DeviceProgram& program : *plan.mutable_devices()) {
      Instruction forward = program.instructions(0);
      ASSERT_EQ(forward.kind(), Instruction::FORWARD);
      std::vector<Instruction> list;
      for (int layer : {0, 1}) {
        Instruction gather = forward;
        gather.set_kind(Instruction::GATHER_PARAMS);
        gather.clear_samples();
        gather.set_bytes(2400);  // half of it comes from the other rank: 1200
        gather.mutable_layers()->set_begin(layer);
        gather.mutable_layers()->set_end(layer + 1);
        list.push_back(gather);
      }
      for (int layer : {0, 1}) {
        forward.mutable_layers()->set_begin(layer);
        forward.mutable_layers()->set_end(layer + 1);
        list.push_back(forward);
      }
      for (int i = 1; i < program.instructions_size(); ++i) list.push_back(program.instructions(i));
      program.clear_instructions();
      for (const Instruction& instruction : list) *program.add_instructions() = instruction;
    }
    const auto simulation = SimulateSteadyState(plan, *cost);
    ASSERT_TRUE(simulation.ok()) << simulation.status();
    // F of layer 0 starts at 1200, of layer 1 at 2400 when its weights have arrived, too; B takes
    // 2000. If collectives use the compute units, F of layer 0 is stopped until the second gather
    // ends.
    EXPECT_EQ(simulation->stats.step_ns, (use_compute ? 2400 + 2000 : 2400 + 1000) + 2000);
  }
}

// Each micro-batch's gradients are reduced, the first ones while the second micro-batch
// runs.
TEST(SimulatorTest, ShardsAreReducedAfterEachMicroBatch) {
  UniformProfileOptions options;
  options.num_layers = 1;
  options.parameter_bytes = 100;
  ClusterSpec cluster = IdealCluster(2);
  // A reduce-scatter or a gather of 100 bytes brings half of them from the other rank: 500 ns.
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e8);
  const auto cost = CostModel::Create(UniformProfile(options), cluster);
  const PipelineLayout layout = StraightLayout(2, 2, 1, {{{0, 1}, 1}});
  LowerOptions lower = NoGlobalNorm();
  lower.shard = ShardPolicy::kStages;
  for (const bool each : {false, true}) {
    lower.reduce_each_micro_batch = each;
    const auto plan = LowerPlan(layout, *MakeSchedule("single", {1, 2}), lower, *cost);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const auto simulation = SimulateSteadyState(*plan, *cost);
    ASSERT_TRUE(simulation.ok()) << simulation.status();
    // Gather 500, two micro-batches of 2000, reduce 500.
    EXPECT_EQ(simulation->stats.step_ns, 500 + 4000 + 500) << each;
  }
}

TEST(SimulatorTest, ReductionsOverlapUnlessTheyUseTheComputeUnits) {
  // One stage of two layers on two ranks, one sample each; layer gradients of 100 bytes at 1e9
  // bytes/s: a ring of two takes 100 ns. F takes 2000. Layer 1's B takes 1000, and its reduction
  // overlaps layer 0's B of 1000. Only layer 0's own reduction shows.
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
    // A reduction is not work, but layer 0's B takes 100 longer if the first reduction holds it up.
    EXPECT_EQ(simulation->stats.busy_ns[0], 4000 + (use_compute ? 100 : 0));
  }
}

TEST(SimulatorTest, PrologueAndLastStepByHand) {
  // One device, one sample: F 1000, B 1000, and an encoder of 300 for the next step.
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
            "num_steps is 2, which leaves no steady step to measure; it must be at least 3");
}

// As in the runtime, all ranks meet after the prologue, however long each one's takes.
TEST(SimulatorTest, StepsStartAfterAllPrologues) {
  RandomStream stream(4, 0, 0, RandomPurpose::kTest);
  int num_uneven = 0;
  for (int i = 0; i < 200; ++i) {
    const RandomInstance instance = MakeRandomInstance(stream);
    if (!WorksAcrossSteps(instance.plan)) continue;
    const CostModel cost = *CostModel::Create(instance.profile, instance.cluster);
    const auto simulation = Simulate(instance.plan, cost);
    ASSERT_TRUE(simulation.ok()) << i << ": " << simulation.status();
    std::map<int, Nanos> prologue_ends;  // by rank
    for (const StreamEvent& event : simulation->events) {
      if (event.stream != TraceEvent::COMPUTE || event.step != -1) continue;
      Nanos& end = prologue_ends[event.rank];
      end = std::max(end, event.end_ns);
    }
    Nanos earliest = std::numeric_limits<Nanos>::max(), latest = 0;
    for (const auto& [rank, end] : prologue_ends) {
      earliest = std::min(earliest, end);
      latest = std::max(latest, end);
    }
    num_uneven += earliest < latest ? 1 : 0;
    EXPECT_EQ(simulation->step_start_ns[0], latest + cost.GlobalNorm()) << i;
    for (const StreamEvent& event : simulation->events) {
      if (event.step != 0) continue;
      EXPECT_GE(event.start_ns, simulation->step_start_ns[0]) << i;
    }
  }
  EXPECT_GE(num_uneven, 5);
}

TEST(SimulatorTest, DeadlockErrorNamesTheWaitingRanks) {
  Case c = Uniform("1f1b", 2, 1);
  // Waits for the gradient before the forward pass that leads to it.
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

// Messages take a millisecond, passes and frozen layers 4 us. Rank 1 runs the first frozen layer
// right after its backward pass, which ends at t, until t + 4 us. Rank 0's backward pass gets its
// gradient at t + 1 ms and ends 4 us later. Then it posts the receive of the frozen values, which
// arrive at t + 2 ms + 4 us.
TEST(SimulatorTest, FrozenLayersWaitForMovedValues) {
  UniformProfileOptions profile;
  profile.num_layers = 2;
  profile.frozen_layers = 2;
  ClusterSpec cluster = IdealCluster(2);
  cluster.mutable_intra_node()->set_latency_ns(1000000);
  const CostModel cost = *CostModel::Create(UniformProfile(profile), cluster);
  LowerOptions options;
  options.frozen = FrozenPolicy::kFill;
  const Plan unfilled = *LowerPlan(StraightLayout(2, 1, 4, {{{0, 1}, 1}, {{1, 2}, 1}}),
                                   *MakeSchedule("1f1b", {2, 1}), options, cost);
  const int last = unfilled.devices(0).instructions_size() - 1;
  WeaveOptions weave;
  for (const DeviceProgram& program : unfilled.devices()) {
    weave.start_ns.emplace_back(program.instructions_size(), 0);
  }
  const auto plan = WeaveFrozenWork(
      unfilled, {{{1, last, 0, {0, 1}, {0, 4}}}, {{0, last, 0, {1, 2}, {0, 4}}}}, weave, cost);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto simulation = SimulateSteadyState(*plan, cost);
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  Nanos end_ns = -1, start_ns = -1;  // of the first layer, of the second one
  for (const StreamEvent& event : simulation->events) {
    const Instruction& instruction = plan->devices(event.rank).instructions(event.instruction);
    if (event.step != 1 || instruction.kind() != Instruction::FROZEN_FORWARD) continue;
    if (event.rank == 1) end_ns = event.end_ns;
    if (event.rank == 0) start_ns = event.start_ns;
  }
  EXPECT_EQ(start_ns, end_ns + 2000000);
}

}  // namespace
}  // namespace dpipe

#include "core/planner/costs/stage_costs.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/philox.h"
#include "core/cost/testing/fake_profile.h"
#include "core/planner/partition/methods/balanced.h"
#include "core/planner/pipeline/pipeline_cut.h"
#include "core/schedule/generators.h"
#include "core/schedule/lowering/lower.h"
#include "core/schedule/memory/memory.h"
#include "core/schedule/schedule_traits.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// 4 layers: per sample 1000 ns forward and 2 x 500 ns backward, 100 bytes per value, 40 bytes of
// weights, 7 saved bytes. Nodes of 2 devices: 1 ns per byte and 10 ns within a node, 2 ns and 50 ns
// between nodes.
ModelProfile Model() {
  UniformProfileOptions options;
  options.value_bytes = 100;
  options.parameter_bytes = 40;
  options.saved_bytes = 7;
  return UniformProfile(options);
}

ClusterSpec Cluster() {
  ClusterSpec cluster;
  cluster.set_num_nodes(2);
  cluster.set_devices_per_node(2);
  cluster.mutable_intra_node()->set_latency_ns(10);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e9);
  cluster.mutable_inter_node()->set_latency_ns(50);
  cluster.mutable_inter_node()->set_bandwidth_bytes_per_s(5e8);
  return cluster;
}

std::shared_ptr<const BackboneTables> Tables(const CostModel& cost) {
  return std::make_shared<BackboneTables>(cost, cost.backbone());
}

StageCostsOptions Options(int num_groups, int devices_per_pipeline, int micro_batch_size) {
  StageCostsOptions options;
  options.num_groups = num_groups;
  options.devices_per_pipeline = devices_per_pipeline;
  options.micro_batch_size = micro_batch_size;
  return options;
}

TEST(StageCostsTest, AStraightPipelineByHand) {
  const CostModel cost = *CostModel::Create(Model(), Cluster());
  const Schedule schedule = *MakeSchedule("1f1b", {2, 4});
  const PipelineShape shape{"1f1b", 4, 2, 2, 4, 16};  // two groups, b = 2
  const ModelStageCosts costs(cost, shape, schedule, 1000);
  const DeviceSeat first{0, 1, false}, second{1, 1, false};
  EXPECT_EQ(costs.ComputeNs(first, {0, 3}), 3 * 2 * 2000);
  EXPECT_EQ(costs.BackwardNs(first, {0, 3}), 3 * 2 * 1000);
  EXPECT_EQ(costs.LinkNs(1, first, second), 2 * (10 + 200));  // there and back, within a node
  EXPECT_EQ(costs.SyncNs({first}, {0, 2}), cost.AllReduce({0, 2}, 80));
  // 40 bytes of weights, gradients and two moments each; two micro-batches in flight, then one.
  // Summing 80 bytes over two ranks needs two rows of 80 + 64.
  const int64_t kept = 1000 + 2 * 144;
  EXPECT_EQ(costs.MemoryBytes(0, first, {{0, 0, {0, 2}}}), kept + 2 * 160 + 2 * 2 * 14);
  EXPECT_EQ(costs.MemoryBytes(1, second, {{1, 0, {2, 4}}}), kept + 2 * 160 + 1 * 2 * 14);
}

TEST(StageCostsTest, RecomputationKeepsOnlyTheInputs) {
  const CostModel cost = *CostModel::Create(Model(), Cluster());
  const Schedule schedule = *MakeSchedule("1f1b", {2, 4});
  const ModelStageCosts costs(cost, Tables(cost), schedule, Options(2, 2, 2));
  const DeviceSeat seat{1, 1, true};
  EXPECT_EQ(costs.ComputeNs(seat, {2, 4}), 2 * 2 * 3000);
  EXPECT_EQ(costs.BackwardNs(seat, {2, 4}), 2 * 2 * 1000);
  // The value at the cut, and what one micro-batch saves during its backward pass.
  EXPECT_EQ(costs.MemoryBytes(1, seat, {{1, 0, {2, 4}}}),
            2 * 160 + 2 * 100 + 2 * 14 + 2 * 144);  // the last term: room for the reduction
}

TEST(StageCostsTest, UnlikeReplicasReshardAndShare) {
  const CostModel cost = *CostModel::Create(Model(), Cluster());
  const Schedule schedule = *MakeSchedule("1f1b", {2, 4});
  const ModelStageCosts costs(cost, Tables(cost), schedule, Options(1, 4, 6));
  const DeviceSeat one{0, 1, false}, three{1, 3, false};
  EXPECT_EQ(costs.ComputeNs(three, {0, 1}), 2 * 2000);
  // Rank 0 sends two samples to each: one message within its node, two between nodes.
  EXPECT_EQ(costs.TransferNs(100, 0, one, three), 10 + 200 + 2 * 50 + 2 * 400);
  EXPECT_EQ(costs.TransferNs(100, 100, one, three), 2 * 1110);
  EXPECT_EQ(costs.SyncNs({three}, {0, 1}), cost.AllReduce({1, 2, 3}, 40));
  EXPECT_EQ(costs.SyncNs({one, three}, {0, 1}), cost.AllReduce({0, 1, 2, 3}, 40));
  EXPECT_EQ(costs.SyncNs({one}, {0, 1}), 0);
  EXPECT_FALSE(costs.CanReplicate(4));
}

TEST(StageCostsTest, RanksThatShareAnInterfaceShareItsBandwidth) {
  const CostModel cost = *CostModel::Create(Model(), Cluster());
  const Schedule schedule = *MakeSchedule("1f1b", {2, 4});
  const ModelStageCosts costs(cost, Tables(cost), schedule, Options(1, 4, 6));
  // Both ranks of node 0 send three samples each to a rank of node 1.
  EXPECT_EQ(costs.TransferNs(100, 0, {0, 2, false}, {2, 2, false}), 50 + 2 * 6 * 100);
}

TEST(StageCostsTest, TheSlowestReplicaOfAnyGroupCounts) {
  ClusterSpec cluster = Cluster();
  cluster.set_memory_bytes_per_device(5000);
  DeviceClass* slow = cluster.add_device_classes();
  slow->set_name("slow");
  slow->set_first_rank(3);
  slow->set_num_devices(1);
  slow->set_speed(0.5);
  slow->set_memory_bytes(700);
  const CostModel cost = *CostModel::Create(Model(), cluster);
  const Schedule schedule = *MakeSchedule("1f1b", {2, 4});
  const ModelStageCosts costs(cost, Tables(cost), schedule, Options(2, 2, 1));
  EXPECT_EQ(costs.ComputeNs({0, 1, false}, {0, 1}), 2000);
  EXPECT_EQ(costs.ComputeNs({1, 1, false}, {0, 1}), 4000);
  EXPECT_EQ(costs.MemoryLimitBytes({0, 1, false}), 5000);
  EXPECT_EQ(costs.MemoryLimitBytes({1, 1, false}), 700);
}

TEST(StageCostsTest, SelfConditioningSometimesRunsAnotherForwardPass) {
  const CostModel cost = *CostModel::Create(Model(), Cluster());
  const Schedule schedule = *MakeSchedule("1f1b", {2, 4});
  StageCostsOptions options = Options(2, 2, 1);
  options.forward_passes = 1.5;
  const ModelStageCosts costs(cost, Tables(cost), schedule, options);
  EXPECT_EQ(costs.ComputeNs({0, 1, false}, {0, 2}), 2 * 2500);
}

// One device with both stages; (3, 1) micro-batches of them in flight, later (2, 2).
Schedule TwoPeaks() {
  const auto f = [](int stage, int m) { return Slot{Pass::kForward, m, stage}; };
  const auto b = [](int stage, int m) { return Slot{Pass::kBackward, m, stage}; };
  ScheduleChain chain;
  chain.devices = {0, 0};
  chain.num_micro_batches = 3;
  return *Schedule::Create("peaks", {chain},
                           {{f(0, 0), f(0, 1), f(0, 2), f(1, 0), b(1, 0), b(0, 0), f(1, 1), f(1, 2),
                             b(1, 1), b(0, 1), b(1, 2), b(0, 2)}});
}

// Schedules and shapes with the same times share cuts, whatever their memory. Others do not.
TEST(StageCostsTest, KnownCutsAreThoseOfFreshTables) {
  RandomStream random(1, 0, 0, RandomPurpose::kTest);
  RandomProfileOptions sizes;
  sizes.min_layers = 8;
  sizes.max_layers = 20;
  int num_cuts = 0;
  for (int i = 0; i < 20; ++i) {
    const ModelProfile model = RandomProfile(random, sizes);
    ClusterSpec cluster = RandomCluster(random, 4);
    if (i % 2 == 0) AddRandomClasses(random, &cluster);
    if (i % 3 == 0) AddRandomSharedLinks(random, &cluster);
    const CostModel cost = *CostModel::Create(model, cluster);
    const auto shared = Tables(cost);
    for (const std::string name : {"zb-v", "v-min", "wave", "chimera"}) {
      for (int groups : {1, 2}) {
        const int devices = 4 / groups;
        for (int micro_batch_size : {4, 8}) {
          for (Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
            const Schedule schedule = *MakeSchedule(name, {2, 4});
            const StageCostsOptions options = Options(groups, devices, micro_batch_size);
            const auto cut = [&](std::shared_ptr<const BackboneTables> tables) {
              const ModelStageCosts costs(cost, std::move(tables), schedule, options);
              PartitionProblem problem =
                  MakePartitionProblem(costs, schedule, 0, std::vector<int>(2, devices / 2));
              problem.recompute = recompute;
              return PartitionBalanced(problem);
            };
            const absl::StatusOr<Partition> known = cut(shared), fresh = cut(Tables(cost));
            ASSERT_EQ(known.ok(), fresh.ok()) << name << ", model " << i;
            if (!known.ok()) continue;
            EXPECT_EQ(known->stages, fresh->stages) << name << ", model " << i;
            ++num_cuts;
          }
        }
      }
    }
    EXPECT_LT(shared->known_cuts()->size(), 32);
  }
  EXPECT_GT(num_cuts, 320);
}

TEST(StageCostsTest, StagesOfADeviceNeedNotPeakTogether) {
  const CostModel cost = *CostModel::Create(Model(), Cluster());
  const Schedule schedule = TwoPeaks();
  const ModelStageCosts costs(cost, Tables(cost), schedule, Options(4, 1, 1));
  const PartitionProblem problem = MakePartitionProblem(costs, schedule, 0, {1});
  EXPECT_EQ(problem.devices_of_stage, (std::vector<std::vector<int>>{{0}, {0}}));
  EXPECT_EQ(problem.num_micro_batches, 3);
  const DeviceSeat seat{0, 1, false};
  // At 7 bytes per layer: 3 x 1 + 1 x 3 or 2 x 1 + 2 x 3 layers, never 3 x 1 + 2 x 3. The reduction
  // of 120 bytes over four ranks needs three others' shares of two chunks.
  const int64_t room = 2 * 3 * (128 + 64);
  EXPECT_EQ(costs.MemoryBytes(0, seat, {{0, 0, {0, 1}}, {1, 0, {1, 4}}}), room + 4 * 160 + 8 * 7);
  EXPECT_EQ(costs.MemoryBytes(0, seat, {{0, 0, {0, 3}}, {1, 0, {3, 4}}}), room + 4 * 160 + 10 * 7);
}

TEST(BackboneTablesTest, WorkspacesOfRangesEqualTheCostModels) {
  RandomStream random(81, 0, 0, RandomPurpose::kTest);
  for (int round = 0; round < 50; ++round) {
    RandomProfileOptions options;
    options.max_layers = 20;
    const CostModel cost =
        *CostModel::Create(RandomProfile(random, options), RandomCluster(random, 4));
    const BackboneTables tables(cost, cost.backbone());
    const int count = cost.num_layers(cost.backbone());
    for (int i = 0; i <= count; ++i) {
      for (int j = i; j <= count; ++j) {
        EXPECT_EQ(tables.WorkspaceBytesPerSample({i, j}),
                  cost.WorkspaceBytesPerSample(cost.backbone(), {i, j}));
      }
    }
  }
}

// Without messages and what stages pass to each other, since they have no bytes here.
TEST(StageCostsTest, ShardedStagesHoldAsMuchAsTheirPlans) {
  UniformProfileOptions uniform;
  uniform.num_layers = 16;
  uniform.value_bytes = 0;
  uniform.parameter_bytes = 40;
  uniform.saved_bytes = 7;
  ModelProfile adapters = UniformProfile(uniform);
  for (LayerProfile& layer : *adapters.mutable_components(0)->mutable_layers()) {
    layer.set_trainable_parameter_bytes(8);
  }
  const CostModel costs_of[] = {*CostModel::Create(UniformProfile(uniform), Cluster()),
                                *CostModel::Create(adapters, Cluster())};
  const char* const names[] = {"1f1b", "gpipe", "interleaved", "zb-h1", "zb-v", "zeropp"};
  for (int i = 0; i < 2 * 6; ++i) {
    const CostModel& cost = costs_of[i / 6];
    const char* const name = names[i % 6];
    for (const bool once : {false, true}) {
      for (const bool recompute : {false, true}) {
        // What is kept from an input gradient to its weight gradient is not counted there.
        if (recompute && TraitsOf(name)->splits_backward) continue;
        const Schedule schedule = *MakeSchedule(name, {2, 4});
        const int num_stages = schedule.num_stages();
        PipelineCut cut;
        cut.stages.emplace_back();
        for (int s = 0; s < num_stages; ++s) {
          cut.stages[0].push_back({s * 16 / num_stages, (s + 1) * 16 / num_stages});
        }
        cut.replicas = {1, 1};
        cut.seating = {0, 1};
        cut.recompute = {recompute, recompute};
        const PipelineShape shape{name, 4, 2, 2, 4, 16};  // two groups, b = 2
        const PipelineLayout layout = *LayoutOf(schedule, cut, shape, 4);
        LowerOptions lower;
        lower.shard = ShardPolicy::kStages;
        lower.gather = once ? GatherPolicy::kOnce : GatherPolicy::kPassByPass;
        const Plan plan = *LowerPlan(layout, schedule, lower, cost);
        StageCostsOptions options = Options(2, 2, 2);
        options.shards_state = true;
        options.gathers_once = once;
        const ModelStageCosts costs(cost, Tables(cost), schedule, options);
        for (int d = 0; d < 2; ++d) {
          std::vector<HeldStage> held;
          for (int s = 0; s < num_stages; ++s) {
            if (schedule.DeviceOf(s) == d) held.push_back({s, 0, cut.stages[0][s]});
          }
          EXPECT_EQ(costs.MemoryBytes(d, {d, 1, recompute}, held),
                    MemoryOfRank(plan, d, cost).peak_bytes)
              << name << (once ? ", gathered once" : "") << (recompute ? ", recomputing" : "")
              << ", device " << d;
        }
      }
    }
  }
}

// By hand: a device restores blocks of layers that hand on values; the plan counts no more.
TEST(StageCostsTest, BlocksHoldAsMuchAsTheirPlans) {
  UniformProfileOptions uniform;
  uniform.num_layers = 32;
  uniform.value_bytes = 3;
  uniform.saved_bytes = 20;
  for (const char* name : {"single", "gpipe", "1f1b", "interleaved", "zb-h1"}) {
    const int num_devices = std::string(name) == "single" ? 1 : 2;
    const CostModel cost = *CostModel::Create(UniformProfile(uniform), IdealCluster(num_devices));
    const Schedule schedule = *MakeSchedule(name, {num_devices, 4});
    const int num_stages = schedule.num_stages();
    PipelineCut cut;
    cut.stages.emplace_back();
    for (int s = 0; s < num_stages; ++s) {
      cut.stages[0].push_back({s * 32 / num_stages, (s + 1) * 32 / num_stages});
    }
    cut.replicas.assign(num_devices, 1);
    for (int d = 0; d < num_devices; ++d) cut.seating.push_back(d);
    cut.recompute.assign(num_devices, true);
    const PipelineShape shape{name, num_devices, num_devices, num_devices, 4, 4};  // b = 1
    StageCostsOptions options = Options(1, num_devices, 1);
    const ModelStageCosts whole(cost, Tables(cost), schedule, options);
    options.recomputes_blocks = true;
    const ModelStageCosts costs(cost, Tables(cost), schedule, options);
    DivideIntoBlocks(schedule, cut.recompute, cost, &cut);
    const Plan plan = *LowerPlan(*LayoutOf(schedule, cut, shape, num_devices), schedule, {}, cost);
    const bool splits = TraitsOf(name)->splits_backward;
    EXPECT_EQ(plan.stages(0).recompute_cuts_size() == 0, splits);
    for (int d = 0; d < num_devices && !splits; ++d) {
      std::vector<HeldStage> held;
      for (int s = 0; s < num_stages; ++s) {
        if (schedule.DeviceOf(s) == d) held.push_back({s, 0, cut.stages[0][s]});
      }
      const DeviceSeat seat{d, 1, true};
      const int64_t planned = MemoryOfRank(plan, d, cost).peak_bytes;
      EXPECT_LT(costs.MemoryBytes(d, seat, held), 0.75 * whole.MemoryBytes(d, seat, held));
      // A plan also counts what messages and neighbouring stages of a device hold.
      EXPECT_GE(planned, costs.MemoryBytes(d, seat, held) - 4 * 3) << name << ", device " << d;
      EXPECT_LE(planned, costs.MemoryBytes(d, seat, held) + 4 * 2 * 3 * 2) << name << " " << d;
    }
  }
}

}  // namespace
}  // namespace dpipe

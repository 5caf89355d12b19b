#include "core/planner/partition/partition.h"

#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/planner/partition/methods/balanced.h"
#include "core/planner/partition/methods/uniform.h"
#include "core/planner/partition/partitioner.h"
#include "core/planner/testing/chain_costs.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(PartitionTest, SingleStageTakesAllLayers) {
  const ChainCosts costs = PlainChain({1, 2, 3});
  for (const std::string& name : PartitionerNames()) {
    EXPECT_EQ((*FindPartitioner(name))(StraightProblem(costs, 1, 3))->stages,
              (std::vector<LayerRange>{{0, 3}}))
        << name;
  }
}

TEST(PartitionTest, UniformCountsLayers) {
  const ChainCosts costs = PlainChain({1, 1, 1, 1, 90});
  EXPECT_EQ(PartitionUniform(StraightProblem(costs, 2, 3))->stages,
            (std::vector<LayerRange>{{0, 3}, {3, 5}}));
}

TEST(PartitionTest, SeatsFollowEachOther) {
  const ChainCosts costs = PlainChain({4, 4});
  PartitionProblem problem = StraightProblem(costs, 2, 3, 2);
  problem.recompute = Recompute::kFull;
  const Partition partition = *PartitionBalanced(problem);
  EXPECT_EQ(partition.seats, (std::vector<DeviceSeat>{{0, 2, true}, {2, 2, true}}));
  EXPECT_EQ(partition.bottleneck_ns, 4);  // 4 forward, twice, over two ranks
}

TEST(PartitionTest, DeviceTimeSumsItsStages) {
  const ChainCosts costs = PlainChain({1, 5, 2, 4});
  PartitionProblem problem = StraightProblem(costs, 4, 3);
  problem.devices_of_stage = {{0}, {1}, {1}, {0}};
  problem.replicas = {1, 1};
  const Partition v = ScorePartition(problem, {{0, 1}, {1, 2}, {2, 3}, {3, 4}},
                                     ConsecutiveSeats(problem.replicas, false));
  EXPECT_EQ(v.bottleneck_ns, 7);
  EXPECT_EQ(v.bound_ns, 2 * 7 + 12);
}

TEST(PartitionTest, CopiesShareTheMicroBatches) {
  // Chimera: stage 0 on devices 0 and 1, stage 1 on 1 and 0; each direction gets half.
  const ChainCosts costs = PlainChain({3, 6});
  PartitionProblem problem = StraightProblem(costs, 2, 4);
  problem.devices_of_stage = {{0, 1}, {1, 0}};
  const Partition partition =
      ScorePartition(problem, {{0, 1}, {1, 2}}, ConsecutiveSeats(problem.replicas, false));
  EXPECT_EQ(partition.bottleneck_ns, 5);  // 9 / 2, rounded up
}

TEST(PartitionTest, SkipsThatStayOnTheirDeviceCrossNoLink) {
  ChainCosts costs = PlainChain({1, 1, 1, 1});
  // A chain of 1-byte values and a skip of 100 bytes from the first layer to the last.
  for (int l = 0; l < 3; ++l) costs.skips.push_back({l, {l + 1}, 1, true});
  costs.skips.push_back({0, {3}, 100, false});
  PartitionProblem problem = StraightProblem(costs, 4, 1);
  const std::vector<LayerRange> stages = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
  problem.replicas = {1, 1};
  problem.devices_of_stage = {{0}, {1}, {1}, {0}};
  EXPECT_EQ(ScorePartition(problem, stages, ConsecutiveSeats({1, 1}, false)).bottleneck_ns, 2);
  problem.devices_of_stage = {{0}, {1}, {0}, {1}};
  EXPECT_EQ(ScorePartition(problem, stages, ConsecutiveSeats({1, 1}, false)).bottleneck_ns, 102);
}

TEST(PartitionTest, ErrorsNameBothValues) {
  ChainCosts costs = PlainChain({1, 2, 3});
  EXPECT_EQ(PartitionBalanced(StraightProblem(costs, 4, 1)).status().message(),
            "4 stages cannot be cut from a backbone of 3 layers");
  EXPECT_EQ(PartitionBalanced(StraightProblem(costs, 0, 1)).status().message(),
            "a pipeline needs at least 1 stage; requested 0");
  costs.memory = {100, 100, 300};
  costs.stash = {2, 1};
  costs.limit = 250;
  EXPECT_EQ(PartitionBalanced(StraightProblem(costs, 2, 1)).status().message(),
            "no partition into 2 stages fits in memory: the most even one needs 400 B on a device "
            "and the limit is 250 B");
  EXPECT_EQ(PartitionUniform(StraightProblem(costs, 2, 1)).status().message(),
            "device 0 (layers [0, 2)): peak 400 B exceeds the device's limit of 250 B");
  costs.max_replicas = 2;
  EXPECT_EQ(PartitionUniform(StraightProblem(costs, 2, 1, 3)).status().message(),
            "device 0: a micro-batch does not divide over its 3 ranks");
  PartitionProblem outside = StraightProblem(costs, 2, 1);
  outside.devices_of_stage[1] = {2};
  EXPECT_EQ(PartitionUniform(outside).status().message(),
            "stage 1 is on device 2, but there are 2 devices");
  EXPECT_EQ(FindPartitioner("magic").status().message(),
            "unknown partitioner 'magic'; there are balanced, by_bound, by_parameters, dapple, "
            "dawnpiper and 6 more; bazel run //tools:plan -- --list shows all");
}

}  // namespace
}  // namespace dpipe

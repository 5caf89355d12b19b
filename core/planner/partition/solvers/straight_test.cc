#include "core/planner/partition/solvers/straight.h"

#include <vector>

#include "core/base/philox.h"
#include "core/planner/testing/brute_force.h"
#include "core/planner/testing/chain_costs.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Returns the first partition of minimum T_max, in lexicographic order of its cuts; no stages if
// none fits.
Partition BestOfAll(const PartitionProblem& problem) {
  Partition best;
  ForEachPartition(problem.costs->num_layers(), problem.num_stages(),
                   [&](const std::vector<LayerRange>& stages) {
                     const absl::StatusOr<Partition> scored = FinishPartition(problem, stages);
                     if (!scored.ok()) return;
                     if (best.stages.empty() || scored->bound_ns < best.bound_ns) best = *scored;
                   });
  return best;
}

// Returns the number of rounds in which nothing fits.
int CompareWithBruteForce(uint64_t seed, int rounds, bool heterogeneous_devices) {
  RandomStream random(seed, 0, 0, RandomPurpose::kTest);
  int infeasible = 0;
  for (int round = 0; round < rounds; ++round) {
    RandomChainOptions options;
    options.num_stages = 1 + random.NextBelow(5);
    options.min_layers = options.num_stages;
    options.max_layers = options.num_stages + 6;
    options.limited = random.NextBelow(2) == 0;
    std::vector<int> replicas(options.num_stages, 1);
    for (int& r : replicas) {
      if (heterogeneous_devices) r = 1 + random.NextBelow(3);
      options.num_ranks += heterogeneous_devices ? r : 0;
    }
    const ChainCosts costs = RandomChain(random, options);
    PartitionProblem problem = StraightProblem(costs, options.num_stages, 1 + random.NextBelow(9));
    problem.replicas = replicas;
    problem.recompute = static_cast<Recompute>(random.NextBelow(3));
    const Partition expected = BestOfAll(problem);
    const absl::StatusOr<Partition> got = PartitionStraight(problem);
    if (expected.stages.empty()) {
      ++infeasible;
      EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted);
      continue;
    }
    EXPECT_TRUE(got.ok()) << got.status();
    if (!got.ok()) return -1;
    EXPECT_EQ(got->bound_ns, expected.bound_ns) << "round " << round;
    EXPECT_EQ(got->stages, expected.stages) << "round " << round;
    EXPECT_EQ(got->seats, expected.seats) << "round " << round;
    if (testing::Test::HasFailure()) return -1;
  }
  return infeasible;
}

TEST(StraightTest, EqualsBruteForceOnRandomChains) {
  const int infeasible = CompareWithBruteForce(11, 5000, false);
  EXPECT_GT(infeasible, 50);
  EXPECT_LT(infeasible, 2500);
}

TEST(StraightTest, EqualsBruteForceOnUnlikeDevices) {
  const int infeasible = CompareWithBruteForce(12, 5000, true);
  EXPECT_GT(infeasible, 50);
  EXPECT_LT(infeasible, 2500);
}

TEST(StraightTest, ByHand) {
  // (2 + 2*2 - 2) * 6 with the cut in the middle; any other has a stage of 7 or more.
  const ChainCosts costs = PlainChain({1, 5, 2, 4});
  const Partition partition = *PartitionStraight(StraightProblem(costs, 2, 2));
  EXPECT_EQ(partition.stages, (std::vector<LayerRange>{{0, 2}, {2, 4}}));
  EXPECT_EQ(partition.bottleneck_ns, 6);
  EXPECT_EQ(partition.bound_ns, 24);
}

TEST(StraightTest, AvoidsAnExpensiveCut) {
  ChainCosts costs = PlainChain({1, 5, 2, 4});
  costs.link = {0, 1, 9, 1};  // the even cut costs 9 per micro-batch; the next best stage has 8
  EXPECT_EQ(PartitionStraight(StraightProblem(costs, 2, 2))->stages,
            (std::vector<LayerRange>{{0, 3}, {3, 4}}));
}

TEST(StraightTest, SyncOutweighsBalance) {
  // The even cut: 4 * 6 + 10, with layer 1's all-reduce exposed in stage 0. One layer earlier: 4 *
  // 7 + 5, with half of it hidden behind layer 0's backward pass.
  ChainCosts costs = PlainChain({0, 1, 1, 5});
  costs.backward = {5, 0, 0, 0};
  costs.sync = {0, 10, 0, 0};
  const PartitionProblem problem = StraightProblem(costs, 2, 2);
  EXPECT_EQ(FinishPartition(problem, {{0, 2}, {2, 4}})->bound_ns, 34);
  const Partition partition = *PartitionStraight(problem);
  EXPECT_EQ(partition.stages, (std::vector<LayerRange>{{0, 1}, {1, 4}}));
  EXPECT_EQ(partition.exposed_sync_ns, 5);
  EXPECT_EQ(partition.bound_ns, 33);
}

TEST(StraightTest, TiesGoToTheLowestIndex) {
  const ChainCosts costs = PlainChain({4, 0, 0, 4});
  EXPECT_EQ(PartitionStraight(StraightProblem(costs, 2, 4))->stages,
            (std::vector<LayerRange>{{0, 1}, {1, 4}}));
}

TEST(StraightTest, SlowDeviceGetsFewerLayers) {
  ChainCosts costs = PlainChain({2, 2, 2, 2, 2, 2});
  costs.slowness = {1, 2};
  EXPECT_EQ(PartitionStraight(StraightProblem(costs, 2, 4))->stages,
            (std::vector<LayerRange>{{0, 4}, {4, 6}}));
}

TEST(StraightTest, RecomputesOnlyWhereItMust) {
  // Stage 0 stashes two micro-batches: layers 0 and 1 need 40 without recomputation.
  ChainCosts costs = PlainChain({1, 1, 4});
  costs.memory = {10, 10, 10};
  costs.stash = {2, 1};
  costs.limit = 20;
  PartitionProblem problem = StraightProblem(costs, 2, 2);
  problem.recompute = Recompute::kAuto;
  const Partition partition = *PartitionStraight(problem);
  EXPECT_EQ(partition.stages, (std::vector<LayerRange>{{0, 2}, {2, 3}}));
  EXPECT_EQ(partition.seats, (std::vector<DeviceSeat>{{0, 1, true}, {1, 1, false}}));
  EXPECT_EQ(partition.bottleneck_ns, 4);
}

}  // namespace
}  // namespace dpipe

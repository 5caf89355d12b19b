#include "core/planner/partition/partitioner.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/planner/partition/methods/by_parameters.h"
#include "core/planner/partition/methods/dapple.h"
#include "core/planner/partition/methods/dawnpiper.h"
#include "core/planner/partition/solvers/straight.h"
#include "core/planner/testing/brute_force.h"
#include "core/planner/testing/chain_costs.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

void ExpectCovers(const Partition& partition, const PartitionProblem& problem,
                  const std::string& what) {
  ASSERT_EQ(static_cast<int>(partition.stages.size()), problem.num_stages()) << what;
  int next = 0, ranks = 0;
  for (const LayerRange& layers : partition.stages) {
    EXPECT_EQ(layers.begin, next) << what;
    EXPECT_FALSE(layers.empty()) << what;
    next = layers.end;
  }
  EXPECT_EQ(next, problem.costs->num_layers()) << what;
  ASSERT_EQ(static_cast<int>(partition.seats.size()), problem.num_devices()) << what;
  for (const DeviceSeat& seat : partition.seats) ranks += seat.replicas;
  EXPECT_EQ(ranks, problem.num_ranks()) << what;
  EXPECT_TRUE(CheckMemory(problem, partition.stages, partition.seats).ok()) << what;
}

// Straight, V or interleaved.
PartitionProblem RandomProblem(RandomStream& random, const ChainCosts& costs, int num_stages) {
  PartitionProblem problem = StraightProblem(costs, num_stages, 1 + random.NextBelow(8));
  problem.recompute = static_cast<Recompute>(random.NextBelow(3));
  problem.choose_replicas = random.NextBelow(2) == 0;
  const int kind = random.NextBelow(3);
  if (num_stages % 2 == 1 || kind == 0) return problem;
  const int num_devices = num_stages / 2;
  for (int k = 0; k < num_stages; ++k) {
    problem.devices_of_stage[k] = {kind == 1 ? std::min(k, num_stages - 1 - k) : k % num_devices};
  }
  problem.replicas.assign(num_devices, 1 + random.NextBelow(2));
  return problem;
}

TEST(PartitionerTest, AllCoverTheLayersWithinMemoryOrFail) {
  RandomStream random(71, 0, 0, RandomPurpose::kTest);
  int made = 0, refused = 0, not_cut = 0;
  for (int round = 0; round < 400; ++round) {
    RandomChainOptions options;
    options.num_stages = 1 + random.NextBelow(6);
    options.min_layers = options.num_stages;
    options.max_layers = options.num_stages + 10;
    options.limited = random.NextBelow(2) == 0;
    options.num_ranks = random.NextBelow(2) == 0 ? 12 : 0;
    const ChainCosts costs = RandomChain(random, options);
    const PartitionProblem problem = RandomProblem(random, costs, options.num_stages);
    for (const std::string& name : PartitionerNames()) {
      const absl::StatusOr<Partition> partition = (*FindPartitioner(name))(problem);
      if (partition.ok()) {
        ++made;
        ExpectCovers(*partition, problem, name);
      } else if (partition.status().code() == absl::StatusCode::kResourceExhausted) {
        ++refused;
        EXPECT_NE(std::string(partition.status().message()).find(" B "), std::string::npos)
            << partition.status();
        EXPECT_TRUE(options.limited);
      } else {
        ++not_cut;
        EXPECT_EQ(partition.status().code(), absl::StatusCode::kInvalidArgument);
      }
    }
  }
  EXPECT_GT(made, 1000);
  EXPECT_GT(refused, 200);
  EXPECT_GT(not_cut, 200);
}

TEST(ByParametersTest, EqualsBruteForceOnRandomChains) {
  RandomStream random(72, 0, 0, RandomPurpose::kTest);
  for (int round = 0; round < 1000; ++round) {
    RandomChainOptions options;
    options.num_stages = 1 + random.NextBelow(5);
    options.min_layers = options.num_stages;
    options.max_layers = options.num_stages + 6;
    const ChainCosts costs = RandomChain(random, options);
    const auto largest = [&](const std::vector<LayerRange>& stages) {
      int64_t bytes = 0;
      for (const LayerRange& layers : stages) {
        bytes = std::max(bytes, costs.ParameterBytes(layers));
      }
      return bytes;
    };
    int64_t least = -1;
    ForEachPartition(costs.num_layers(), options.num_stages,
                     [&](const std::vector<LayerRange>& stages) {
                       if (least < 0 || largest(stages) < least) least = largest(stages);
                     });
    const auto got = PartitionByParameters(StraightProblem(costs, options.num_stages, 2));
    ASSERT_EQ(largest(got->stages), least);
  }
}

TEST(ByParametersTest, IgnoresTimes) {
  ChainCosts costs = PlainChain({90, 1, 1, 1});
  costs.memory = {1, 1, 1, 5};
  EXPECT_EQ(PartitionByParameters(StraightProblem(costs, 2, 1))->stages,
            (std::vector<LayerRange>{{0, 3}, {3, 4}}));
}

TEST(DawnPiperTest, ByHand) {
  // Halves 12 | 12, then 4 8 -> 4 | 8 and 6 6.
  const ChainCosts costs = PlainChain({4, 6, 2, 6, 6});
  EXPECT_EQ(PartitionDawnPiper(StraightProblem(costs, 4, 1))->stages,
            (std::vector<LayerRange>{{0, 1}, {1, 3}, {3, 4}, {4, 5}}));
}

TEST(DawnPiperTest, TwoStagesAreCutOptimally) {
  RandomStream random(73, 0, 0, RandomPurpose::kTest);
  int infeasible = 0;
  for (int round = 0; round < 1000; ++round) {
    RandomChainOptions options;
    options.num_stages = 2;
    options.min_layers = 2;
    options.max_layers = 10;
    options.limited = random.NextBelow(2) == 0;
    options.num_ranks = random.NextBelow(2) == 0 ? 2 : 0;
    const ChainCosts costs = RandomChain(random, options);
    const PartitionProblem problem = StraightProblem(costs, 2, 3);
    Nanos least = -1;
    ForEachPartition(costs.num_layers(), 2, [&](const std::vector<LayerRange>& stages) {
      const auto partition = FinishPartition(problem, stages);
      if (!partition.ok()) return;
      if (least < 0 || partition->bottleneck_ns < least) least = partition->bottleneck_ns;
    });
    const auto got = PartitionDawnPiper(problem);
    infeasible += least < 0;
    ASSERT_EQ(got.ok(), least >= 0);
    if (got.ok()) {
      ASSERT_EQ(got->bottleneck_ns, least);
    }
  }
  EXPECT_GT(infeasible, 20);
}

TEST(DawnPiperTest, FindsAPartitionWheneverOneFitsAndIsNeverBetterThanTheExactOne) {
  RandomStream random(74, 0, 0, RandomPurpose::kTest);
  int infeasible = 0;
  for (int round = 0; round < 2000; ++round) {
    RandomChainOptions options;
    options.num_stages = 1 + random.NextBelow(7);
    options.min_layers = options.num_stages;
    options.max_layers = options.num_stages + 10;
    options.limited = true;
    const ChainCosts costs = RandomChain(random, options);
    const PartitionProblem problem = StraightProblem(costs, options.num_stages, 3);
    const auto exact = PartitionStraight(problem);
    const auto got = PartitionDawnPiper(problem);
    ASSERT_EQ(got.ok(), exact.ok());
    infeasible += !got.ok();
    if (got.ok()) {
      EXPECT_GE(got->bound_ns, exact->bound_ns);
    }
  }
  EXPECT_GT(infeasible, 100);
  EXPECT_LT(infeasible, 1900);
}

// With one micro-batch, no limit on blocks rules out a larger one: hundreds are tried.
TEST(DappleTest, TerminatesWithManyRanksAndOneMicroBatch) {
  RandomStream random(36, 0, 0, RandomPurpose::kTest);
  RandomChainOptions options;
  options.num_stages = 6;
  options.min_layers = options.max_layers = 90;
  ChainCosts costs = RandomChain(random, options);
  for (int l = 0; l < 90; ++l) {
    costs.forward[l] = costs.forward[l] * 100'000 + random.NextBelow(100'000);
    costs.sync[l] = costs.sync[l] * 1000 + random.NextBelow(1000);
  }
  PartitionProblem problem = StraightProblem(costs, 6, 1, 4);
  problem.choose_replicas = true;
  const absl::StatusOr<Partition> dapple = PartitionDapple(problem);
  ASSERT_TRUE(dapple.ok()) << dapple.status();
  ExpectCovers(*dapple, problem, "dapple");
  const Nanos cost = DappleCost(problem, dapple->stages, dapple->seats);
  for (const std::string name : {"balanced", "pipedream", "spp", "uniform"}) {
    const Partition other = *(*FindPartitioner(name))(problem);
    EXPECT_LE(cost, DappleCost(problem, other.stages, other.seats)) << name;
  }
}

}  // namespace
}  // namespace dpipe

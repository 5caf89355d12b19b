#include "core/planner/partition/solvers/replicated.h"

#include <functional>
#include <vector>

#include "core/base/philox.h"
#include "core/planner/partition/methods/dapple.h"
#include "core/planner/partition/methods/pipedream.h"
#include "core/planner/partition/methods/spp.h"
#include "core/planner/testing/brute_force.h"
#include "core/planner/testing/chain_costs.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using Cost = Nanos (*)(const PartitionProblem&, const std::vector<LayerRange>&,
                       const std::vector<DeviceSeat>&);
using Method = absl::StatusOr<Partition> (*)(const PartitionProblem&);

// Returns every way to split D into replicas of the stages; only the problem's own unless it allows
// a choice.
void ForEachReplicas(const PartitionProblem& problem,
                     const std::function<void(const std::vector<int>&)>& visit) {
  if (!problem.choose_replicas) return visit(problem.replicas);
  ForEachPartition(problem.num_ranks(), problem.num_stages(),
                   [&](const std::vector<LayerRange>& parts) {
                     std::vector<int> replicas;
                     for (const LayerRange& part : parts) {
                       if (!problem.costs->CanReplicate(part.size())) return;
                       replicas.push_back(part.size());
                     }
                     visit(replicas);
                   });
}

// Returns -1 if nothing fits.
Nanos LeastOfAll(const PartitionProblem& problem, Cost cost) {
  Nanos least = -1;
  ForEachReplicas(problem, [&](const std::vector<int>& replicas) {
    ForEachPartition(problem.costs->num_layers(), problem.num_stages(),
                     [&](const std::vector<LayerRange>& stages) {
                       const auto partition = FinishPartition(problem, stages, replicas);
                       if (!partition.ok()) return;
                       const Nanos here = cost(problem, stages, partition->seats);
                       if (least < 0 || here < least) least = here;
                     });
  });
  return least;
}

void CompareWithBruteForce(uint64_t seed, Method method, Cost cost) {
  RandomStream random(seed, 0, 0, RandomPurpose::kTest);
  int infeasible = 0;
  for (int round = 0; round < 1500; ++round) {
    RandomChainOptions options;
    options.num_stages = 1 + random.NextBelow(4);
    options.min_layers = options.num_stages;
    options.max_layers = options.num_stages + 4;
    options.limited = random.NextBelow(3) == 0;
    std::vector<int> replicas(options.num_stages, 1);
    for (int& r : replicas) r = 1 + random.NextBelow(2);
    int num_ranks = 0;
    for (int r : replicas) num_ranks += r;
    options.num_ranks = random.NextBelow(2) == 0 ? num_ranks : 0;
    ChainCosts costs = RandomChain(random, options);
    costs.max_replicas = 3;
    PartitionProblem problem =
        StraightProblem(costs, options.num_stages, options.num_stages + random.NextBelow(6));
    problem.replicas = replicas;
    problem.choose_replicas = random.NextBelow(3) > 0;
    problem.recompute = random.NextBelow(4) == 0 ? Recompute::kFull : Recompute::kNone;
    const Nanos expected = LeastOfAll(problem, cost);
    const absl::StatusOr<Partition> got = method(problem);
    if (expected < 0) {
      ++infeasible;
      EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted) << got.status();
      continue;
    }
    ASSERT_TRUE(got.ok()) << "round " << round << ": " << got.status();
    ASSERT_EQ(cost(problem, got->stages, got->seats), expected) << "round " << round;
  }
  EXPECT_GT(infeasible, 10);
  EXPECT_LT(infeasible, 750);
}

TEST(PipeDreamTest, EqualsBruteForceOnRandomChains) {
  CompareWithBruteForce(41, PartitionPipeDream, PipeDreamCost);
}
TEST(SppTest, EqualsBruteForceOnRandomChains) { CompareWithBruteForce(42, PartitionSpp, SppCost); }
TEST(DappleTest, EqualsBruteForceOnRandomChains) {
  CompareWithBruteForce(43, PartitionDapple, DappleCost);
}

// Two stages on four ranks; layer 0 alone takes three times the rest.
PartitionProblem Lopsided(const ChainCosts& costs) {
  PartitionProblem problem = StraightProblem(costs, 2, 4, 2);
  problem.choose_replicas = true;
  return problem;
}

TEST(PipeDreamTest, GivesTheHeavyStageMoreRanks) {
  ChainCosts costs = PlainChain({90, 10, 10, 10});
  const Partition partition = *PartitionPipeDream(Lopsided(costs));
  EXPECT_EQ(partition.stages, (std::vector<LayerRange>{{0, 1}, {1, 4}}));
  EXPECT_EQ(partition.seats, (std::vector<DeviceSeat>{{0, 3, false}, {3, 1, false}}));
  // 200 per rank to reduce layer 0's gradients: (30 + 600 / 3) against (45 + 400 / 2) and 90 + 200.
  costs.sync = {200, 0, 0, 0};
  EXPECT_EQ(PipeDreamCost(Lopsided(costs), {{0, 1}, {1, 4}}, {{0, 3, false}, {3, 1, false}}), 230);
  EXPECT_EQ(PipeDreamCost(Lopsided(costs), {{0, 1}, {1, 4}}, {{0, 2, false}, {2, 2, false}}), 245);
}

TEST(SppTest, CostByHand) {
  ChainCosts costs = PlainChain({90, 10, 10, 10});
  costs.sync = {200, 0, 0, 0};
  costs.link = {0, 70, 0, 0};
  const PartitionProblem problem = Lopsided(costs);
  // 4 x 30 + 3 x 200, 4 x 30, 4 x 70.
  EXPECT_EQ(SppCost(problem, {{0, 1}, {1, 4}}, {{0, 3, false}, {3, 1, false}}), 720);
}

TEST(DappleTest, CostByHand) {
  ChainCosts costs = PlainChain({90, 10, 10, 10});
  costs.sync = {0, 200, 0, 0};
  costs.link = {0, 7, 0, 0};
  const PartitionProblem problem = Lopsided(costs);
  // 3 x 30 + 30 + 30 + 7, plus the part of stage 1's all-reduce (200) that a block of 30 does not
  // hide.
  EXPECT_EQ(DappleCost(problem, {{0, 1}, {1, 4}}, {{0, 3, false}, {3, 1, false}}),
            90 + 60 + 7 + 170);
}

TEST(ReplicatedTest, RefusesProblemsThatAreNotStraight) {
  const ChainCosts costs = PlainChain({1, 1, 1, 1});
  PartitionProblem v = StraightProblem(costs, 4, 1);
  v.devices_of_stage = {{0}, {1}, {1}, {0}};
  v.replicas = {1, 1};
  EXPECT_EQ(PartitionSpp(v).status().message(),
            "partitioner 'spp' cuts straight pipelines only; requested 4 stages in 1 copies on 2 "
            "devices");
}

TEST(SeatTablesTest, SeatsThatCostTheSameShareATable) {
  RandomStream random(7, 0, 0, RandomPurpose::kTest);
  RandomChainOptions options;
  options.num_stages = 4;
  options.min_layers = options.max_layers = 6;
  const ChainCosts costs = RandomChain(random, options);
  const PartitionProblem problem = StraightProblem(costs, 4, 4);
  SeatTables tables(problem);
  int shared = 0;
  for (int rank = 1; rank < 4; ++rank) {
    const SeatTables::Table& first = tables.Of({0, 1, false});
    const SeatTables::Table& other = tables.Of({rank, 1, false});
    const bool alike = first.compute == other.compute && first.sync == other.sync;
    EXPECT_EQ(&first == &other, alike) << rank;
    EXPECT_EQ(&other, &tables.Of({rank, 1, false})) << rank;
    shared += alike;
  }
  EXPECT_GT(shared, 0);
}

}  // namespace
}  // namespace dpipe

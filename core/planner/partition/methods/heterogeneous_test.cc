#include "core/planner/partition/methods/heterogeneous.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/base/philox.h"
#include "core/planner/partition/solvers/straight.h"
#include "core/planner/testing/brute_force.h"
#include "core/planner/testing/chain_costs.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Returns the minimum largest stage or link over all orders of the devices and all cuts; -1 if
// nothing fits.
Nanos LeastOfAll(const PartitionProblem& problem) {
  Nanos least = -1;
  std::vector<int> order(problem.num_devices());
  std::iota(order.begin(), order.end(), 0);
  do {
    PartitionProblem ordered = problem;
    for (int device : order) ordered.first_ranks.push_back(device * problem.replicas[0]);
    ForEachPartition(problem.costs->num_layers(), problem.num_stages(),
                     [&](const std::vector<LayerRange>& stages) {
                       const auto partition = FinishPartition(ordered, stages);
                       if (!partition.ok()) return;
                       if (least < 0 || partition->bottleneck_ns < least) {
                         least = partition->bottleneck_ns;
                       }
                     });
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(HeterogeneousTest, OrderEqualsBruteForceOnRandomChains) {
  RandomStream random(51, 0, 0, RandomPurpose::kTest);
  int infeasible = 0, reordered = 0;
  for (int round = 0; round < 1000; ++round) {
    RandomChainOptions options;
    options.num_stages = 1 + random.NextBelow(4);
    options.min_layers = options.num_stages;
    options.max_layers = options.num_stages + 4;
    options.limited = random.NextBelow(3) == 0;
    const int replicas = 1 + random.NextBelow(2);
    options.num_ranks = options.num_stages * replicas;
    const ChainCosts costs = RandomChain(random, options);
    PartitionProblem problem = StraightProblem(costs, options.num_stages, 4, replicas);
    problem.recompute = random.NextBelow(4) == 0 ? Recompute::kFull : Recompute::kNone;
    const Nanos expected = LeastOfAll(problem);
    const DeviceOrder order = MinBottleneckOrder(problem);
    const absl::StatusOr<Partition> got = PartitionHeterogeneous(problem);
    if (expected < 0) {
      ++infeasible;
      EXPECT_TRUE(order.first_ranks.empty());
      EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted);
      continue;
    }
    ASSERT_EQ(order.largest, expected) << "round " << round;
    PartitionProblem ordered = problem;
    ordered.first_ranks = order.first_ranks;
    EXPECT_EQ(FinishPartition(ordered, order.stages)->bottleneck_ns, expected);
    ASSERT_TRUE(got.ok());
    const absl::StatusOr<Partition> in_order = PartitionStraight(problem);
    if (in_order.ok()) {
      EXPECT_LE(got->bound_ns, in_order->bound_ns);
    }
    reordered += got->seats != ConsecutiveSeats(problem.replicas, got->seats[0].recompute);
  }
  EXPECT_GT(infeasible, 5);
  EXPECT_GT(reordered, 100);
}

TEST(HeterogeneousTest, ByHand) {
  // The slow device (rank 0) is best last: 6 + 6 | 3 x 2, not 6 x 2 | 6 + 3.
  ChainCosts costs = PlainChain({6, 6, 6});
  costs.slowness = {2, 1};
  const Partition partition = *PartitionHeterogeneous(StraightProblem(costs, 2, 3));
  EXPECT_EQ(partition.bottleneck_ns, 12);
  costs.forward = {6, 6, 3};
  const Partition reordered = *PartitionHeterogeneous(StraightProblem(costs, 2, 3));
  EXPECT_EQ(reordered.bottleneck_ns, 12);
  costs.forward = {7, 6, 4};
  const Partition last = *PartitionHeterogeneous(StraightProblem(costs, 2, 3));
  EXPECT_EQ(last.bottleneck_ns, 13);  // 7 + 6 on the quick one, 4 x 2 on the slow one
  EXPECT_EQ(last.seats, (std::vector<DeviceSeat>{{1, 1, false}, {0, 1, false}}));
}

// If what crosses cuts takes more memory than what layers save, only stages that do not recompute
// fit.
struct ThickCuts : ChainCosts {
  int64_t MemoryBytes(int, const DeviceSeat& seat,
                      const std::vector<HeldStage>& held) const override {
    return seat.recompute ? 1000 : 10 * held[0].layers.size();
  }
};

TEST(HeterogeneousTest, OrdersStagesThatFitWithoutRecomputationAlone) {
  ThickCuts costs;
  static_cast<ChainCosts&>(costs) = PlainChain({7, 6, 4});
  costs.slowness = {2, 1};
  costs.limit = 100;
  PartitionProblem problem = StraightProblem(costs, 2, 3);
  problem.recompute = Recompute::kAuto;
  const Partition partition = *PartitionHeterogeneous(problem);
  EXPECT_EQ(partition.bottleneck_ns, 13);
  EXPECT_EQ(partition.seats, (std::vector<DeviceSeat>{{1, 1, false}, {0, 1, false}}));
}

TEST(HeterogeneousTest, SaysWhereNoOrderWasSearched) {
  ChainCosts costs = PlainChain(std::vector<Nanos>(13, 6));
  for (int rank = 0; rank < 13; ++rank) costs.slowness.push_back(13 - rank);
  const Partition many = *PartitionHeterogeneous(StraightProblem(costs, 13, 3));
  EXPECT_EQ(
      many.note,
      "the devices keep their order: their classes have more than 4096 multisets, too many to "
      "search");
  EXPECT_EQ(many.seats, ConsecutiveSeats(std::vector<int>(13, 1), false));
  EXPECT_EQ(PartitionHeterogeneous(StraightProblem(costs, 12, 3))->note, "");
}

TEST(HeterogeneousTest, RefusesUnequalReplicas) {
  const ChainCosts costs = PlainChain({1, 1, 1});
  PartitionProblem problem = StraightProblem(costs, 2, 3);
  problem.replicas = {1, 2};
  EXPECT_EQ(PartitionHeterogeneous(problem).status().message(),
            "partitioner 'heterogeneous' orders devices of equal replicas; got 1 and 2");
}

}  // namespace
}  // namespace dpipe

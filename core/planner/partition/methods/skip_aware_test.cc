#include "core/planner/partition/methods/skip_aware.h"

#include <algorithm>
#include <vector>

#include "core/base/philox.h"
#include "core/planner/partition/boundary_traffic.h"
#include "core/planner/partition/methods/balanced.h"
#include "core/planner/testing/brute_force.h"
#include "core/planner/testing/chain_costs.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

PartitionProblem VProblem(const StageCosts& costs, int num_devices, int num_micro_batches) {
  PartitionProblem problem = StraightProblem(costs, 2 * num_devices, num_micro_batches);
  problem.replicas.assign(num_devices, 1);
  for (int k = 0; k < num_devices; ++k) {
    problem.devices_of_stage[k] = problem.devices_of_stage[2 * num_devices - 1 - k] = {k};
  }
  return problem;
}

TEST(SkipAwareTest, EqualsBruteForceOnRandomChains) {
  RandomStream random(61, 0, 0, RandomPurpose::kTest);
  int infeasible = 0, unlike_balanced = 0;
  for (int round = 0; round < 1500; ++round) {
    const int num_devices = 1 + random.NextBelow(3);
    RandomChainOptions options;
    options.num_stages = 2 * num_devices;
    options.min_layers = options.num_stages;
    options.max_layers = options.num_stages + 5;
    options.limited = random.NextBelow(4) == 0;
    options.num_ranks = random.NextBelow(3) == 0 ? num_devices : 0;
    ChainCosts costs = RandomChain(random, options);
    const int count = costs.num_layers();
    for (int l = 0; l + 1 < count; ++l) {
      ChainValue value{l, {l + 1}, 1 + random.NextBelow(20), random.NextBelow(2) == 0};
      const int far = l + 1 + random.NextBelow(count - l - 1);
      if (random.NextBelow(2) == 0 && far > l + 1) value.consumers.push_back(far);
      costs.skips.push_back(value);
    }
    PartitionProblem problem = VProblem(costs, num_devices, 1 + random.NextBelow(6));
    problem.recompute = random.NextBelow(4) == 0 ? Recompute::kFull : Recompute::kNone;
    Nanos expected = -1;
    ForEachPartition(count, options.num_stages, [&](const std::vector<LayerRange>& stages) {
      const auto partition = FinishPartition(problem, stages);
      if (!partition.ok()) return;
      const Nanos here = SkipAwareCost(problem, stages, partition->seats);
      if (expected < 0 || here < expected) expected = here;
    });
    const absl::StatusOr<Partition> got = PartitionSkipAware(problem);
    if (expected < 0) {
      ++infeasible;
      EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted);
      continue;
    }
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(SkipAwareCost(problem, got->stages, got->seats), expected) << "round " << round;
    unlike_balanced += got->stages != PartitionBalanced(problem)->stages;
  }
  EXPECT_GT(infeasible, 30);
  EXPECT_GT(unlike_balanced, 300);
}

// A small U-Net: layer l's output is read by the next layer and, in the encoder, by layer 15 - l.
ChainCosts UNet() {
  ChainCosts costs = PlainChain(std::vector<Nanos>(16, 10));
  for (int l = 0; l < 15; ++l) {
    ChainValue value{l, {l + 1}, l < 8 ? 8 - l : l - 7, true};
    if (l < 7) value.consumers.push_back(15 - l);
    costs.skips.push_back(value);
  }
  return costs;
}

TEST(SkipAwareTest, PutsTheEndsOfASkipOnOneDevice) {
  const ChainCosts costs = UNet();
  const PartitionProblem problem = VProblem(costs, 4, 8);
  const Partition partition = *PartitionSkipAware(problem);
  for (int k = 0; k < 3; ++k) {  // the last device's turn may be anywhere
    EXPECT_EQ(partition.stages[k], (LayerRange{2 * k, 2 * k + 2}));
    EXPECT_EQ(partition.stages[7 - k], (LayerRange{14 - 2 * k, 16 - 2 * k}));
  }
  // Only the value of the layer before a boundary crosses it.
  const std::vector<BoundaryTraffic> traffic =
      TrafficOf(costs.skips, partition.stages, {0, 1, 2, 3, 3, 2, 1, 0});
  for (int k = 0; k < 7; ++k) {
    if (k == 3) continue;  // the turn, on one device
    EXPECT_EQ(traffic[k].forward_bytes, costs.skips[partition.stages[k].end - 1].bytes_per_sample)
        << k;
  }
}

TEST(BoundaryTrafficTest, ByHand) {
  // Made by stage 0; read by stages 1 (another device) and 3 (its own): crosses the first boundary.
  const std::vector<ChainValue> values = {{0, {1, 3}, 10, true}, {1, {3}, 1, false}};
  const std::vector<LayerRange> stages = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
  const std::vector<BoundaryTraffic> v = TrafficOf(values, stages, {0, 1, 1, 0});
  EXPECT_EQ(v[0].forward_bytes, 10);
  EXPECT_EQ(v[0].gradient_bytes, 10);
  EXPECT_EQ(v[1].forward_bytes, 1);
  EXPECT_EQ(v[2].forward_bytes, 1);
  EXPECT_EQ(v[2].gradient_bytes, 0);
  const std::vector<BoundaryTraffic> straight = TrafficOf(values, stages, {0, 1, 2, 3});
  EXPECT_EQ(straight[2].forward_bytes, 11);
}

TEST(SkipAwareTest, RefusesOtherPlacements) {
  const ChainCosts costs = UNet();
  EXPECT_EQ(PartitionSkipAware(StraightProblem(costs, 2, 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace dpipe

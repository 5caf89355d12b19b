#include "core/planner/partition/solvers/pair.h"

#include <algorithm>
#include <vector>

#include "core/base/philox.h"
#include "core/planner/testing/brute_force.h"
#include "core/planner/testing/chain_costs.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Returns the largest load of the given cuts; -1 if they do not fit.
Nanos LoadOf(const PairProblem& problem, const std::vector<LayerRange>& down,
             const std::vector<LayerRange>& up) {
  const int count = problem.num_devices();
  const std::vector<DeviceSeat> seats = ConsecutiveSeats(problem.replicas, problem.recompute);
  Nanos largest = 0;
  for (int d = 0; d < count; ++d) {
    const LayerRange mine = down[d], other = up[count - 1 - d];
    const int64_t limit = problem.down->MemoryLimitBytes(seats[d]);
    const int64_t need = problem.down->MemoryBytes(d, seats[d], {{d, 0, mine}}) +
                         problem.up->MemoryBytes(d, seats[d], {{count - 1 - d, 0, other}});
    if (limit > 0 && need > limit) return -1;
    const Nanos down_ns = problem.down->ComputeNs(seats[d], mine);
    const Nanos up_ns = problem.up->ComputeNs(seats[d], other);
    largest = std::max(
        largest, problem.num_down_micro_batches * down_ns + problem.num_up_micro_batches * up_ns);
    if (d + 1 == count) continue;
    largest = std::max(
        {largest,
         problem.num_down_micro_batches * problem.down->LinkNs(mine.end, seats[d], seats[d + 1]),
         problem.num_up_micro_batches * problem.up->LinkNs(other.begin, seats[d + 1], seats[d])});
  }
  return largest;
}

Nanos LeastOfAll(const PairProblem& problem) {
  Nanos least = -1;
  const int count = problem.num_devices();
  ForEachPartition(problem.down->num_layers(), count, [&](const std::vector<LayerRange>& down) {
    ForEachPartition(problem.up->num_layers(), count, [&](const std::vector<LayerRange>& up) {
      const Nanos load = LoadOf(problem, down, up);
      if (load >= 0 && (least < 0 || load < least)) least = load;
    });
  });
  return least;
}

TEST(PairTest, EqualsBruteForceOnRandomChains) {
  RandomStream random(31, 0, 0, RandomPurpose::kTest);
  int infeasible = 0;
  for (int round = 0; round < 3000; ++round) {
    RandomChainOptions options;
    options.num_stages = 1 + random.NextBelow(4);
    options.min_layers = options.num_stages;
    options.max_layers = options.num_stages + 4;
    options.num_ranks = random.NextBelow(2) == 0 ? options.num_stages : 0;
    options.limited = random.NextBelow(3) == 0;
    const ChainCosts down = RandomChain(random, options);
    ChainCosts up = RandomChain(random, options);
    up.slowness = down.slowness;
    PairProblem problem;
    problem.down = &down;
    problem.up = &up;
    problem.num_down_micro_batches = 1 + random.NextBelow(4);
    problem.num_up_micro_batches = 1 + random.NextBelow(4);
    problem.replicas.assign(options.num_stages, 1);
    problem.recompute = random.NextBelow(4) == 0;
    const Nanos expected = LeastOfAll(problem);
    const absl::StatusOr<PairPartition> got = PartitionPair(problem);
    if (expected < 0) {
      ++infeasible;
      EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted);
      continue;
    }
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->largest_load_ns, expected) << "round " << round;
    ASSERT_EQ(LoadOf(problem, got->down, got->up), expected) << "round " << round;
  }
  EXPECT_GT(infeasible, 100);
  EXPECT_LT(infeasible, 1500);
}

TEST(PairTest, ByHand) {
  // Down 1 2 3 in order, up 5 1 against it: device 0 has down's first stage and up's last.
  const ChainCosts down = PlainChain({1, 2, 3});
  const ChainCosts up = PlainChain({5, 1});
  const PairPartition partition = *PartitionPair({&down, &up, 2, 2, {1, 1}, false});
  EXPECT_EQ(partition.down, (std::vector<LayerRange>{{0, 2}, {2, 3}}));
  EXPECT_EQ(partition.up, (std::vector<LayerRange>{{0, 1}, {1, 2}}));
  EXPECT_EQ(partition.largest_load_ns, 2 * 3 + 2 * 5);
  EXPECT_EQ(partition.bound_ns, 16 + 2 * 4);
}

TEST(PairTest, ErrorsNameBothValues) {
  ChainCosts down = PlainChain({1, 2, 3});
  ChainCosts up = PlainChain({5});
  EXPECT_EQ(PartitionPair({&down, &up, 1, 1, {1, 1}, false}).status().message(),
            "2 stages cannot be cut from the up backbone of 1 layers");
  up = PlainChain({5, 5});
  down.memory = {10, 10, 10};
  down.limit = 5;
  EXPECT_EQ(
      PartitionPair({&down, &up, 1, 1, {1, 1}, false}).status().message(),
      "no partition of two backbones over 2 devices fits in memory: with layers divided evenly, "
      "device 1 needs 20 B and the limit is 5 B");
}

}  // namespace
}  // namespace dpipe

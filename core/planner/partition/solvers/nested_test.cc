#include "core/planner/partition/solvers/nested.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/base/philox.h"
#include "core/planner/partition/methods/balanced.h"
#include "core/planner/partition/solvers/folded.h"
#include "core/planner/testing/brute_force.h"
#include "core/planner/testing/chain_costs.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

PartitionProblem VProblem(const StageCosts& costs, int num_devices) {
  PartitionProblem problem = StraightProblem(costs, 2 * num_devices, 4);
  problem.replicas.assign(num_devices, 1);
  for (int k = 0; k < num_devices; ++k) {
    problem.devices_of_stage[k] = problem.devices_of_stage[2 * num_devices - 1 - k] = {k};
  }
  return problem;
}

PartitionProblem ChimeraProblem(const StageCosts& costs, int num_devices) {
  PartitionProblem problem = StraightProblem(costs, num_devices, 4);
  for (int k = 0; k < num_devices; ++k) problem.devices_of_stage[k] = {k, num_devices - 1 - k};
  return problem;
}

Nanos LargestSum(const PartitionProblem& problem, const Partition& partition) {
  Nanos largest = 0;
  const auto held = HeldStages(problem, partition.stages);
  for (int d = 0; d < problem.num_devices(); ++d) {
    Nanos sum = 0;
    for (const HeldStage& stage : held[d]) {
      sum += problem.costs->ComputeNs(partition.seats[d], stage.layers);
    }
    largest = std::max(largest, sum);
  }
  return largest;
}

// Returns -1 if nothing fits.
Nanos LeastOfAll(const PartitionProblem& problem) {
  Nanos least = -1;
  ForEachPartition(problem.costs->num_layers(), problem.num_stages(),
                   [&](const std::vector<LayerRange>& stages) {
                     const absl::StatusOr<Partition> scored = FinishPartition(problem, stages);
                     if (!scored.ok()) return;
                     const Nanos largest = LargestSum(problem, *scored);
                     if (least < 0 || largest < least) least = largest;
                   });
  return least;
}

// One chain, with equal devices.
NestedProblem ChainProblem(const std::vector<Nanos>& sums, int num_devices) {
  NestedProblem problem;
  problem.num_devices = num_devices;
  problem.num_front = static_cast<int>(sums.size()) - 1;
  problem.front_time = problem.back_time = [sums](int, LayerRange layers) {
    return sums[layers.end] - sums[layers.begin];
  };
  problem.fits = [](int, LayerRange, LayerRange) { return true; };
  return problem;
}

std::vector<Nanos> RandomSums(RandomStream& random, int num_layers) {
  std::vector<Nanos> sums = {0};
  for (int l = 0; l < num_layers; ++l)
    sums.push_back(sums.back() + 15000 + random.NextBelow(30000));
  return sums;
}

void ExpectNested(const NestedSolution& solution, int num_layers) {
  int front = 0, back = num_layers;
  for (const auto& [outer, inner] : solution.devices) {
    EXPECT_EQ(outer.begin, front);
    EXPECT_EQ(inner.end, back);
    EXPECT_FALSE(outer.empty());
    EXPECT_FALSE(inner.empty());
    front = outer.end;
    back = inner.begin;
  }
  EXPECT_EQ(front, back);
}

TEST(NestedTest, LargeProblemsAreNearlyExact) {
  RandomStream random(26, 0, 0, RandomPurpose::kTest);
  double sum = 0;
  constexpr int kRounds = 60;
  for (int round = 0; round < kRounds; ++round) {
    const int num_devices = 1 + static_cast<int>(random.NextBelow(8));
    const int num_layers = 2 * num_devices + static_cast<int>(random.NextBelow(60));
    NestedProblem problem = ChainProblem(RandomSums(random, num_layers), num_devices);
    const NestedSolution exact = SolveNested(problem);
    problem.max_ranges = 0;
    const NestedSolution large = SolveNested(problem);
    ASSERT_EQ(large.devices.size(), num_devices);
    ExpectNested(large, num_layers);
    const double over = static_cast<double>(large.largest) / static_cast<double>(exact.largest) - 1;
    EXPECT_GE(over, 0);
    // With hardly more layers than ranges, the error comes from ranges that must not be empty.
    EXPECT_LE(over, num_layers < 4 * num_devices ? 0.7 : 0.04) << num_layers << " " << num_devices;
    sum += over;
  }
  EXPECT_LT(sum / kRounds, 0.03);
}

TEST(NestedTest, AThousandLayersOnManyDevices) {
  RandomStream random(27, 0, 0, RandomPurpose::kTest);
  for (int num_devices : {8, 32, 64}) {
    const std::vector<Nanos> sums = RandomSums(random, 1000);
    const NestedSolution solution = SolveNested(ChainProblem(sums, num_devices));
    ASSERT_EQ(solution.devices.size(), num_devices);
    ExpectNested(solution, 1000);
    EXPECT_LE(static_cast<double>(solution.largest),
              1.03 * static_cast<double>(sums[1000]) / num_devices);
  }
}

// Two chains, with equal devices.
NestedProblem TwoChainProblem(const std::vector<Nanos>& front, const std::vector<Nanos>& back,
                              int num_devices) {
  NestedProblem problem = ChainProblem(front, num_devices);
  problem.is_shared = false;
  problem.num_back = static_cast<int>(back.size()) - 1;
  problem.back_time = [back](int, LayerRange layers) {
    return back[layers.end] - back[layers.begin];
  };
  return problem;
}

void ExpectTwoChains(const NestedProblem& problem, const NestedSolution& solution) {
  ASSERT_EQ(solution.devices.size(), problem.num_devices);
  int front = 0, back = problem.num_back;
  Nanos largest = 0;
  for (int d = 0; d < problem.num_devices; ++d) {
    const auto& [one, other] = solution.devices[d];
    EXPECT_EQ(one.begin, front);
    EXPECT_EQ(other.end, back);
    EXPECT_FALSE(one.empty());
    EXPECT_FALSE(other.empty());
    front = one.end;
    back = other.begin;
    largest = std::max(largest, problem.front_time(d, one) + problem.back_time(d, other));
    if (d + 1 == problem.num_devices || !problem.front_link) continue;
    largest = std::max({largest, problem.front_link(d, front), problem.back_link(d, back)});
  }
  EXPECT_EQ(front, problem.num_front);
  EXPECT_EQ(back, 0);
  EXPECT_EQ(largest, solution.largest);
}

// One problem in three has thick cuts, one in three a limit on the number of layers of a device.
TEST(NestedTest, LargeProblemsOfTwoChainsAreNearlyExact) {
  RandomStream random(28, 0, 0, RandomPurpose::kTest);
  double sum = 0;
  constexpr int kRounds = 60;
  for (int round = 0; round < kRounds; ++round) {
    const int num_devices = 1 + static_cast<int>(random.NextBelow(8));
    const int num_front = 4 * num_devices + static_cast<int>(random.NextBelow(40));
    const int num_back = 4 * num_devices + static_cast<int>(random.NextBelow(40));
    NestedProblem problem =
        TwoChainProblem(RandomSums(random, num_front), RandomSums(random, num_back), num_devices);
    if (round % 3 == 1) {
      problem.front_link = [](int, int cut) { return cut % 3 == 0 ? Nanos{1} << 40 : Nanos{1}; };
      problem.back_link = [](int, int cut) { return cut % 5 == 0 ? Nanos{1} << 40 : Nanos{1}; };
    }
    if (round % 3 == 2) {
      const int most = (num_front + num_back + num_devices - 1) / num_devices + 2;
      problem.fits = [most](int, LayerRange front, LayerRange back) {
        return front.size() + back.size() <= most;
      };
    }
    const NestedSolution exact = SolveNested(problem);
    problem.max_ranges = 0;
    const NestedSolution large = SolveNested(problem);
    ExpectTwoChains(problem, exact);
    ExpectTwoChains(problem, large);
    const double over = static_cast<double>(large.largest) / static_cast<double>(exact.largest) - 1;
    EXPECT_GE(over, 0);
    EXPECT_LE(over, 0.1) << "round " << round;
    sum += over;
  }
  EXPECT_LT(sum / kRounds, 0.03);
}

TEST(NestedTest, TwoChainsOfAThousandLayersOnManyDevices) {
  RandomStream random(29, 0, 0, RandomPurpose::kTest);
  for (int num_devices : {16, 64}) {
    const std::vector<Nanos> front = RandomSums(random, 1000), back = RandomSums(random, 500);
    const NestedProblem problem = TwoChainProblem(front, back, num_devices);
    const NestedSolution solution = SolveNested(problem);
    ExpectTwoChains(problem, solution);
    EXPECT_LE(static_cast<double>(solution.largest),
              1.03 * static_cast<double>(front[1000] + back[500]) / num_devices);
    // Each device leaves similar parts of both chains.
    for (const auto& [one, other] : solution.devices) {
      EXPECT_NEAR(static_cast<double>(front[1000] - front[one.end]) / front[1000],
                  static_cast<double>(back[other.begin]) / back[500], 0.08);
    }
  }
}

// Of many best cuts, the large problem's solution has similar ranges.
TEST(NestedTest, LargeProblemsPreferSimilarRanges) {
  std::vector<Nanos> sums;
  for (int l = 0; l <= 64; ++l) sums.push_back(100 * l);
  NestedProblem problem = ChainProblem(sums, 8);
  problem.max_ranges = 0;
  for (const auto& [front, back] : SolveNested(problem).devices) {
    EXPECT_EQ(front.size(), 4);
    EXPECT_EQ(back.size(), 4);
  }
}

TEST(FoldedTest, EqualsBruteForceOnRandomChains) {
  RandomStream random(21, 0, 0, RandomPurpose::kTest);
  int infeasible = 0;
  for (int round = 0; round < 3000; ++round) {
    const bool chimera = random.NextBelow(3) == 0;
    const int num_devices = chimera ? 2 + 2 * random.NextBelow(2) : 1 + random.NextBelow(3);
    RandomChainOptions options;
    options.num_stages = chimera ? num_devices : 2 * num_devices;
    options.min_layers = options.num_stages;
    options.max_layers = options.num_stages + 6;
    options.num_ranks = !chimera && random.NextBelow(2) == 0 ? num_devices : 0;
    options.limited = random.NextBelow(3) == 0;
    ChainCosts costs = RandomChain(random, options);
    if (random.NextBelow(4) == 0) costs.forward[random.NextBelow(costs.forward.size())] = 200;
    PartitionProblem problem =
        chimera ? ChimeraProblem(costs, num_devices) : VProblem(costs, num_devices);
    if (random.NextBelow(4) == 0) problem.recompute = Recompute::kFull;
    ASSERT_TRUE(IsFolded(problem));
    const Nanos expected = LeastOfAll(problem);
    const absl::StatusOr<Partition> got = PartitionBalanced(problem);
    if (expected < 0) {
      ++infeasible;
      EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted);
      continue;
    }
    ASSERT_TRUE(got.ok()) << round << " " << got.status();
    ASSERT_EQ(LargestSum(problem, *got), expected) << "round " << round;
  }
  EXPECT_GT(infeasible, 100);
  EXPECT_LT(infeasible, 1500);
}

// What a V of recomputing stages is cut from. A stage keeps the value at the cut at its beginning
// for every micro-batch in flight, and what its layers save once.
struct RecomputedChain {
  std::vector<int64_t> time, state, saved, cut;  // by layer; the cut is before it
  int in_flight = 1;
  int64_t limit = 0;

  static int64_t Sum(const std::vector<int64_t>& of_layers, LayerRange layers) {
    return std::accumulate(of_layers.begin() + layers.begin, of_layers.begin() + layers.end,
                           int64_t{0});
  }
  bool Fits(LayerRange front, LayerRange back) const {
    const int64_t kept = in_flight * (cut[front.begin] + cut[back.begin]);
    return kept + Sum(state, front) + Sum(state, back) +
               std::max(Sum(saved, front), Sum(saved, back)) <=
           limit;
  }
};

RecomputedChain RandomRecomputedChain(RandomStream& random, int num_layers) {
  RecomputedChain chain;
  for (int l = 0; l < num_layers; ++l) {
    chain.time.push_back(1 + random.NextBelow(9));
    chain.state.push_back(1 + random.NextBelow(4));
    chain.saved.push_back(1 + random.NextBelow(6));
    // Skips make some cuts thick.
    const bool is_thin = l == 0 || random.NextBelow(2) == 0;
    chain.cut.push_back(l == 0 ? 0 : is_thin ? 1 : 10 + random.NextBelow(40));
  }
  chain.in_flight = 1 + random.NextBelow(4);
  chain.limit = 15 + random.NextBelow(60);
  return chain;
}

TEST(NestedTest, EqualsBruteForceIfLongerStagesMayKeepLess) {
  RandomStream random(23, 0, 0, RandomPurpose::kTest);
  int feasible = 0;
  for (int round = 0; round < 20'000; ++round) {
    const int num_devices = 2 + random.NextBelow(3);
    const RecomputedChain chain =
        RandomRecomputedChain(random, 2 * num_devices + 1 + random.NextBelow(4));
    NestedProblem problem;
    problem.num_devices = num_devices;
    problem.num_front = static_cast<int>(chain.time.size());
    problem.front_time = problem.back_time = [&](int, LayerRange layers) {
      return RecomputedChain::Sum(chain.time, layers);
    };
    problem.fits = [&](int, LayerRange front, LayerRange back) { return chain.Fits(front, back); };
    problem.memory_grows = false;
    Nanos least = -1;
    ForEachPartition(problem.num_front, 2 * num_devices, [&](const std::vector<LayerRange>& cut) {
      Nanos largest = 0;
      for (int d = 0; d < num_devices; ++d) {
        const LayerRange front = cut[d], back = cut[2 * num_devices - 1 - d];
        if (!chain.Fits(front, back)) return;
        largest = std::max(largest, problem.front_time(d, front) + problem.back_time(d, back));
      }
      if (least < 0 || largest < least) least = largest;
    });
    const NestedSolution solution = SolveNested(problem);
    ASSERT_EQ(solution.devices.empty(), least < 0) << "round " << round;
    if (least < 0) continue;
    ++feasible;
    ASSERT_EQ(solution.largest, least) << "round " << round;
  }
  EXPECT_GT(feasible, 6000);
}

TEST(FoldedTest, ByHand) {
  // Layer 0 and the last two take 8 on the outer device, the rest 9 on the inner one.
  const ChainCosts costs = PlainChain({1, 2, 3, 2, 2, 6, 1});
  const Partition partition = *PartitionBalanced(VProblem(costs, 2));
  EXPECT_EQ(partition.bottleneck_ns, 9);
  EXPECT_EQ(partition.stages[0], (LayerRange{0, 1}));
  EXPECT_EQ(partition.stages[3], (LayerRange{5, 7}));
}

TEST(FoldedTest, RecognisesFoldedPlacements) {
  const ChainCosts costs = PlainChain(std::vector<Nanos>(12, 1));
  EXPECT_TRUE(IsFolded(VProblem(costs, 3)));
  EXPECT_TRUE(IsFolded(ChimeraProblem(costs, 4)));
  EXPECT_FALSE(IsFolded(ChimeraProblem(costs, 3)));
  EXPECT_FALSE(IsFolded(StraightProblem(costs, 4, 1)));
  PartitionProblem interleaved = VProblem(costs, 2);
  interleaved.devices_of_stage = {{0}, {1}, {0}, {1}};
  EXPECT_FALSE(IsFolded(interleaved));
}

// Not exact: within a bound that holds for these chains, and often optimal.
TEST(RefineTest, IsNearBruteForceOnInterleavedChains) {
  RandomStream random(22, 0, 0, RandomPurpose::kTest);
  int optimal = 0, rounds = 0;
  double ratio = 0, worst = 1;
  for (int round = 0; round < 500; ++round) {
    RandomChainOptions options;
    options.num_stages = 4 + 2 * random.NextBelow(2);
    options.min_layers = options.num_stages + 1;
    options.max_layers = options.num_stages + 6;
    const ChainCosts costs = RandomChain(random, options);
    PartitionProblem problem = StraightProblem(costs, options.num_stages, 4);
    problem.replicas = {1, 1};
    for (int k = 0; k < options.num_stages; ++k) problem.devices_of_stage[k] = {k % 2};
    const Nanos expected = LeastOfAll(problem);
    const Nanos got = LargestSum(problem, *PartitionBalanced(problem));
    ASSERT_GE(got, expected);
    ++rounds;
    optimal += got == expected;
    ratio += static_cast<double>(got) / expected;
    worst = std::max(worst, static_cast<double>(got) / expected);
  }
  RecordProperty("optimal", optimal);
  RecordProperty("worst", std::to_string(worst));
  EXPECT_GE(optimal, rounds * 8 / 10);
  EXPECT_LE(ratio / rounds, 1.01);
}

}  // namespace
}  // namespace dpipe

#include "core/planner/partition/partition.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/planner/partition/balanced.h"
#include "core/planner/partition/partitioner.h"
#include "core/planner/partition/uniform.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Costs by layer, in plain vectors.
struct ChainCosts : StageCosts {
  std::vector<Nanos> forward, backward, link, sync;  // link[i]: the cut before layer i
  std::vector<int64_t> memory;                       // of one stashed micro-batch
  int num_stages = 1;

  static Nanos Sum(const std::vector<Nanos>& v, LayerRange layers) {
    Nanos sum = 0;
    for (int l = layers.begin; l < layers.end; ++l) sum += v[l];
    return sum;
  }
  int num_layers() const override { return static_cast<int>(forward.size()); }
  Nanos ComputeNs(LayerRange layers) const override {
    return Sum(forward, layers) + Sum(backward, layers);
  }
  Nanos BackwardNs(LayerRange layers) const override { return Sum(backward, layers); }
  Nanos LinkNs(int cut) const override { return link[cut]; }
  Nanos SyncNs(LayerRange layers) const override { return Sum(sync, layers); }
  int64_t MemoryBytes(int stage, LayerRange layers) const override {
    return Sum(memory, layers) * (num_stages - stage);  // 1F1B stashes S - s micro-batches
  }
};

ChainCosts Chain(const std::vector<Nanos>& compute) {
  ChainCosts costs;
  costs.forward = compute;
  costs.backward.assign(compute.size(), 0);
  costs.link.assign(compute.size(), 0);
  costs.sync.assign(compute.size(), 0);
  costs.memory.assign(compute.size(), 0);
  return costs;
}

// Every partition in lexicographic order of its cuts; the first of least T_max wins.
void Enumerate(const PartitionProblem& problem, std::vector<LayerRange>& stages, Partition& best) {
  const int num_layers = problem.costs->num_layers();
  const int begin = stages.empty() ? 0 : stages.back().end;
  if (static_cast<int>(stages.size()) == problem.num_stages) {
    if (begin != num_layers || !CheckMemory(problem, stages).ok()) return;
    const Partition scored = ScorePartition(problem, stages);
    if (best.stages.empty() || scored.bound_ns < best.bound_ns) best = scored;
    return;
  }
  for (int end = begin + 1; end <= num_layers; ++end) {
    stages.push_back({begin, end});
    Enumerate(problem, stages, best);
    stages.pop_back();
  }
}

ChainCosts RandomChain(RandomStream& random, int num_stages) {
  ChainCosts costs;
  costs.num_stages = num_stages;
  const int num_layers = num_stages + random.NextBelow(7);
  for (int l = 0; l < num_layers; ++l) {
    costs.forward.push_back(random.NextBelow(12));
    costs.backward.push_back(random.NextBelow(20));
    costs.link.push_back(random.NextBelow(30));
    costs.sync.push_back(random.NextBelow(120));
    costs.memory.push_back(random.NextBelow(10));
  }
  return costs;
}

TEST(PartitionTest, BalancedEqualsBruteForceOnRandomChains) {
  RandomStream random(11, 0, 0, RandomPurpose::kTest);
  int infeasible = 0;
  for (int round = 0; round < 5000; ++round) {
    const int num_stages = 1 + random.NextBelow(5);
    const ChainCosts costs = RandomChain(random, num_stages);
    PartitionProblem problem;
    problem.costs = &costs;
    problem.num_stages = num_stages;
    problem.num_micro_batches = 1 + random.NextBelow(9);
    problem.memory_limit_bytes = random.NextBelow(2) == 0 ? 0 : 20 + random.NextBelow(60);
    Partition expected;
    std::vector<LayerRange> stages;
    Enumerate(problem, stages, expected);
    const absl::StatusOr<Partition> got = PartitionBalanced(problem);
    if (expected.stages.empty()) {
      ++infeasible;
      EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted);
      continue;
    }
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->bound_ns, expected.bound_ns) << "round " << round;
    ASSERT_EQ(got->stages, expected.stages) << "round " << round;
  }
  EXPECT_GT(infeasible, 100);
  EXPECT_LT(infeasible, 2500);
}

TEST(PartitionTest, ByHand) {
  // (2 + 2*2 - 2) * 6 with the cut in the middle; any other has a stage of 7 or more.
  const ChainCosts costs = Chain({1, 5, 2, 4});
  PartitionProblem problem{&costs, 2, 2, 0};
  const Partition partition = *PartitionBalanced(problem);
  EXPECT_EQ(partition.stages, (std::vector<LayerRange>{{0, 2}, {2, 4}}));
  EXPECT_EQ(partition.bottleneck_ns, 6);
  EXPECT_EQ(partition.bound_ns, 24);
}

TEST(PartitionTest, AnExpensiveCutIsAvoided) {
  ChainCosts costs = Chain({1, 5, 2, 4});
  costs.link = {0, 1, 9, 1};  // the even cut costs 9 a micro-batch; the next best stage has 8
  PartitionProblem problem{&costs, 2, 2, 0};
  EXPECT_EQ(PartitionBalanced(problem)->stages, (std::vector<LayerRange>{{0, 3}, {3, 4}}));
}

TEST(PartitionTest, SyncOutweighsBalance) {
  // The even cut: 4 * 6 + 10, layer 1's all-reduce exposed in stage 0. One layer earlier: 4 * 7 +
  // 5, half of it hidden behind layer 0's backward.
  ChainCosts costs = Chain({0, 1, 1, 5});
  costs.backward = {5, 0, 0, 0};
  costs.sync = {0, 10, 0, 0};
  PartitionProblem problem{&costs, 2, 2, 0};
  EXPECT_EQ(ScorePartition(problem, {{0, 2}, {2, 4}}).bound_ns, 34);
  const Partition partition = *PartitionBalanced(problem);
  EXPECT_EQ(partition.stages, (std::vector<LayerRange>{{0, 1}, {1, 4}}));
  EXPECT_EQ(partition.exposed_sync_ns, 5);
  EXPECT_EQ(partition.bound_ns, 33);
}

TEST(PartitionTest, TiesGoToTheLowestIndex) {
  const ChainCosts costs = Chain({4, 0, 0, 4});
  PartitionProblem problem{&costs, 2, 4, 0};
  EXPECT_EQ(PartitionBalanced(problem)->stages, (std::vector<LayerRange>{{0, 1}, {1, 4}}));
}

TEST(PartitionTest, SingleStageTakesAllLayers) {
  const ChainCosts costs = Chain({1, 2, 3});
  for (const std::string& name : PartitionerNames()) {
    EXPECT_EQ((*FindPartitioner(name))({&costs, 1, 3, 0})->stages,
              (std::vector<LayerRange>{{0, 3}}));
  }
}

TEST(PartitionTest, UniformCountsLayers) {
  const ChainCosts costs = Chain({1, 1, 1, 1, 90});
  EXPECT_EQ(PartitionUniform({&costs, 2, 3, 0})->stages, (std::vector<LayerRange>{{0, 3}, {3, 5}}));
}

TEST(PartitionTest, ErrorsNameBothValues) {
  ChainCosts costs = Chain({1, 2, 3});
  EXPECT_EQ(PartitionBalanced({&costs, 4, 1, 0}).status().message(),
            "4 stages cannot be cut from a backbone of 3 layers");
  costs.memory = {100, 100, 300};
  costs.num_stages = 2;
  EXPECT_EQ(PartitionBalanced({&costs, 2, 1, 250}).status().message(),
            "no partition into 2 stages fits in memory: the most even one needs 400 B on a device "
            "and the limit is 250 B");
  EXPECT_EQ(PartitionUniform({&costs, 2, 1, 250}).status().message(),
            "stage 0 (layers [0, 2)): peak 400 B exceeds the device's limit of 250 B");
  EXPECT_EQ(FindPartitioner("magic").status().message(),
            "unknown partitioner 'magic'; the known ones are balanced, none, uniform");
}

}  // namespace
}  // namespace dpipe

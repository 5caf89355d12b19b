#include "core/planner/fill/greedy/pack.h"

#include <numeric>
#include <vector>

#include "core/base/philox.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Returns a chain of one component in which step i takes ns_per_unit[i] per unit.
Chain LinearChain(const std::vector<Nanos>& ns_per_unit, int num_units) {
  Chain chain;
  chain.total_ns.assign(num_units + 1, 0);
  for (int l = 0; l < ns_per_unit.size(); ++l) {
    chain.steps.push_back({0, l, l == 0});
    std::vector<Nanos> ns;
    for (int u = 0; u <= num_units; ++u) ns.push_back(u * ns_per_unit[l]);
    for (int u = 0; u <= num_units; ++u) chain.total_ns[u] += ns[u];
    chain.step_ns.push_back(ns);
  }
  return chain;
}

FrozenWork Work(std::vector<Chain> chains, int num_units) {
  FrozenWork work;
  work.chains = std::move(chains);
  work.num_units = num_units;
  return work;
}

std::vector<std::vector<int>> AsVectors(const std::vector<Placement>& placements) {
  std::vector<std::vector<int>> out;
  for (const Placement& p : placements) {
    out.push_back({p.gap, p.chain, p.step_begin, p.step_end, p.unit_begin, p.unit_end});
  }
  return out;
}

TEST(PackTest, FullThenPartialBatches) {
  // 4 units; steps of 1, 2 and 3 per unit take 4, 8 and 12 at full batch.
  const FrozenWork work = Work({LinearChain({1, 2, 3}, 4)}, 4);
  const Packing packing = Pack(work, {4}, {9, 3, 20}, {});
  // Gap of 9: step 0 at full batch (4), step 1 on two units (4). Gap of 3: step 1 on one more unit
  // (2). Gap of 20: step 1 on the last unit (2), step 2 at full batch (12).
  EXPECT_EQ(AsVectors(packing.placements), (std::vector<std::vector<int>>{{0, 0, 0, 1, 0, 4},
                                                                          {0, 0, 1, 2, 0, 2},
                                                                          {1, 0, 1, 2, 2, 3},
                                                                          {2, 0, 1, 2, 3, 4},
                                                                          {2, 0, 2, 3, 0, 4}}));
  EXPECT_EQ(packing.used_ns, (std::vector<Nanos>{8, 2, 14}));
  EXPECT_EQ(packing.leftover_ns, 0);
}

TEST(PackTest, MoreIsLeftWithoutPartialBatches) {
  const FrozenWork work = Work({LinearChain({1, 2, 3}, 4)}, 4);
  PackOptions options;
  options.partial_batch = false;
  const Packing packing = Pack(work, {4}, {9, 3}, options);
  EXPECT_EQ(packing.used_ns, (std::vector<Nanos>{4, 0}));
  EXPECT_EQ(packing.leftover_ns, 20);
}

TEST(PackTest, LongestSetOfTwoChains) {
  // One unit. Chain 0: 5, 5; chain 1: 3, 4. Sets for a gap of 12: 5+5=10, 5+3+4=12 (best), 3+4=7.
  const FrozenWork work = Work({LinearChain({5, 5}, 1), LinearChain({3, 4}, 1)}, 1);
  const Packing packing = Pack(work, {1, 1}, {12}, {});
  EXPECT_EQ(packing.used_ns, (std::vector<Nanos>{12}));
  EXPECT_EQ(packing.leftover_ns, 5);
}

TEST(PackTest, OnePartialBatchPerGap) {
  // 3 units. Neither chain fits into a gap of 14 at full batch, but two units of chain 1 (8) and
  // one of chain 0 (5) do.
  const auto chain_of = [](const std::vector<Nanos>& times) {
    Chain chain = LinearChain({1}, 3);
    chain.step_ns[0] = chain.total_ns = times;
    return chain;
  };
  const FrozenWork work = Work({chain_of({0, 5, 15, 20}), chain_of({0, 4, 8, 20})}, 3);
  PackOptions options;
  for (const int width : {1, 4}) {
    options.beam_width = width;
    options.one_partial = false;
    EXPECT_EQ(Pack(work, {3, 3}, {14}, options).used_ns[0], 13) << "width " << width;
    options.one_partial = true;
    EXPECT_EQ(Pack(work, {3, 3}, {14}, options).used_ns[0], 8) << "width " << width;
  }
}

TEST(PackTest, SkipsInefficientPartialBatch) {
  // A kernel takes 10 for one to three units and 11 for four. Three units now would save only 1
  // later.
  Chain chain = LinearChain({0}, 4);
  chain.step_ns[0] = {0, 10, 10, 10, 11};
  chain.total_ns = chain.step_ns[0];
  PackOptions greedy;
  greedy.beam_width = 1;
  const Packing packing = Pack(Work({chain}, 4), {4}, {10}, greedy);
  EXPECT_TRUE(packing.used_ns == std::vector<Nanos>{0});
  EXPECT_EQ(packing.leftover_ns, 11);
  // Beam search takes it: the gap would be idle otherwise, and it leaves 10 instead of 11.
  EXPECT_EQ(Pack(Work({chain}, 4), {4}, {10}, {}).leftover_ns, 10);
}

TEST(PackTest, EachInstructionPaysOverhead) {
  FrozenWork work = Work({LinearChain({4, 4}, 2)}, 2);
  work.instruction_overhead_ns = 1;
  EXPECT_EQ(Pack(work, {2}, {17}, {}).used_ns,
            (std::vector<Nanos>{17}));  // one instruction: 16 + 1
  EXPECT_EQ(Pack(work, {2}, {16}, {}).used_ns, (std::vector<Nanos>{14}));  // 8 + 1, then 4 + 1
}

TEST(PackTest, ShortGapsAreIgnored) {
  PackOptions options;
  options.min_gap_ns = 5;
  const Packing packing = Pack(Work({LinearChain({1, 1}, 1)}, 1), {1}, {4, 5}, options);
  EXPECT_EQ(packing.used_ns, (std::vector<Nanos>{0, 2}));
}

TEST(PackTest, BeamSearchLooksAhead) {
  // One unit. Gaps of 6 and 10; chain 0: 5, 10; chain 1: 6, 1. Greedy: the longest set for the
  // first gap is chain 1's 6. The second gap then holds 5 and 1, and 10 is left. Better: 5 and then
  // 10, which leaves 7.
  const FrozenWork work = Work({LinearChain({5, 10}, 1), LinearChain({6, 1}, 1)}, 1);
  PackOptions options;
  options.beam_width = 1;
  EXPECT_EQ(Pack(work, {1, 1}, {6, 10}, options).leftover_ns, 10);
  options.beam_width = 2;
  EXPECT_EQ(Pack(work, {1, 1}, {6, 10}, options).leftover_ns, 7);
}

TEST(PackTest, BlocksRunOneAfterAnother) {
  // 3 units of steps 1 and 2 in blocks of two units: 2 + 4, then 1 + 2. A gap of 8 takes the first
  // block and the first step of the second block.
  PackOptions options;
  options.max_batch_units = 2;
  const Packing packing = Pack(Work({LinearChain({1, 2}, 3)}, 3), {3}, {8}, options);
  EXPECT_EQ(
      AsVectors(packing.placements),
      (std::vector<std::vector<int>>{{0, 0, 0, 2, 0, 2}, {0, 0, 0, 1, 2, 3}, {1, 0, 1, 2, 2, 3}}));
  EXPECT_EQ(packing.used_ns, (std::vector<Nanos>{7}));
  EXPECT_EQ(packing.leftover_ns, 2);
}

// Each (step, unit) runs once, each unit's steps run in order, and no gap is overfull.
TEST(PackTest, PropertiesOnRandomWork) {
  RandomStream random(5, 0, 0, RandomPurpose::kTest);
  for (int round = 0; round < 3000; ++round) {
    const int num_units = 1 + random.NextBelow(5);
    std::vector<Chain> chains;
    const int num_chains = random.NextBelow(5);
    for (int c = 0; c < num_chains; ++c) {
      std::vector<Nanos> ns(1 + random.NextBelow(6));
      for (Nanos& n : ns) n = random.NextBelow(9);
      chains.push_back(LinearChain(ns, num_units));
    }
    FrozenWork work = Work(chains, num_units);
    work.instruction_overhead_ns = random.NextBelow(3);
    std::vector<int> units;
    for (int c = 0; c < num_chains; ++c) units.push_back(random.NextBelow(num_units + 1));
    std::vector<Nanos> gaps(random.NextBelow(7));
    for (Nanos& gap : gaps) gap = random.NextBelow(40);
    PackOptions options;
    options.partial_batch = random.NextBelow(4) > 0;
    options.min_gap_ns = random.NextBelow(4);
    options.beam_width = 1 + random.NextBelow(4);
    options.max_batch_units = random.NextBelow(4);
    const Packing packing = Pack(work, units, gaps, options);
    std::vector<std::vector<int>> next(num_chains, std::vector<int>(num_units, 0));
    for (const Placement& p : packing.placements) {
      for (int s = p.step_begin; s < p.step_end; ++s) {
        for (int u = p.unit_begin; u < p.unit_end; ++u) ASSERT_EQ(next[p.chain][u]++, s);
      }
      if (options.max_batch_units > 0) {
        ASSERT_LE(p.unit_end - p.unit_begin, options.max_batch_units);
      }
    }
    for (int c = 0; c < num_chains; ++c) {
      for (int u = 0; u < num_units; ++u) {
        ASSERT_EQ(next[c][u], u < units[c] ? chains[c].steps.size() : 0);
      }
    }
    for (int g = 0; g < gaps.size(); ++g) ASSERT_LE(packing.used_ns[g], gaps[g]);
  }
}

}  // namespace
}  // namespace dpipe

#include "core/tensor/cuda/sum_tables.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/base/philox.h"
#include "core/tensor/device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::cuda {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<float> Normals(int64_t count, uint64_t seed) {
  RandomStream random(seed, 0, 0, RandomPurpose::kTest);
  std::vector<float> values(count);
  for (float& value : values) value = random.NextNormal();
  return values;
}

// Runs the tables like a GPU, but in reverse order, from the last thread of the last block.
void RunAll(const std::vector<SumTable>& tables) {
  for (const SumTable& table : tables) {
    for (uint32_t block = table.blocks(); block-- > 0;) {
      for (uint32_t thread = SumTable::kThreads; thread-- > 0;) table.AddUp(block, thread);
    }
  }
}

TEST(FirstWhereTest, ReturnsFirstMatchOrLastIndex) {
  for (int n = 1; n <= 9; ++n) {
    for (int first = 0; first <= n; ++first) {
      EXPECT_EQ(FirstWhere(n, [&](int i) { return i >= first; }), std::min(first, n - 1))
          << first << " of " << n;
    }
  }
}

// A single sum of various sizes: each element is added once, from left to right, and nothing else
// is written.
TEST(SumTablesTest, ElementsAreAddedFromLeftToRight) {
  constexpr int64_t kBlock = SumTable::kElementsOfBlock;
  for (const int64_t count : {int64_t{1}, int64_t{255}, int64_t{257}, kBlock - 1, kBlock,
                              kBlock + 1, 3 * kBlock + 1025}) {
    for (const int num_terms : {1, 2, 3, 8, SumTable::kMaxTerms}) {
      for (const bool adds : {false, true}) {
        std::vector<std::vector<float>> terms;
        OrderedSum sum = {nullptr, {}, count, adds};
        for (int t = 0; t < num_terms; ++t) terms.push_back(Normals(count, t + 1));
        for (const auto& term : terms) sum.terms.push_back(term.data());
        std::vector<float> values = Normals(count + 2, 1000), expected = values;
        for (int64_t i = 0; i < count; ++i) {
          float total = terms[0][i];
          for (int t = 1; t < num_terms; ++t) total += terms[t][i];
          expected[i + 1] = adds ? expected[i + 1] + total : total;
        }
        sum.sum = values.data() + 1;
        RunAll(SumTablesOf({sum}));
        ASSERT_EQ(values, expected) << count << " elements, " << num_terms << " terms";
      }
    }
  }
}

TEST(SumTablesTest, TermMayBeTheSum) {
  const int64_t count = 2 * SumTable::kElementsOfBlock + 3;
  const std::vector<float> first = Normals(count, 1), second = Normals(count, 2);
  std::vector<float> sum = second, expected(count);
  for (int64_t i = 0; i < count; ++i) expected[i] = (first[i] + second[i]) + first[i];
  RunAll(SumTablesOf({{sum.data(), {first.data(), sum.data(), first.data()}, count}}));
  EXPECT_EQ(sum, expected);
}

// Many sums at once give the same result as on a CPU.
TEST(SumTablesTest, ManySumsTakeFewTables) {
  RandomStream random(7, 0, 0, RandomPurpose::kTest);
  constexpr int kSums = 500, kPool = 20000;
  const std::vector<float> pool = Normals(kPool, 1);
  std::vector<std::vector<float>> expected, sums;
  std::vector<OrderedSum> ordered;
  int64_t num_terms = 0;
  for (int s = 0; s < kSums; ++s) {
    const int64_t count = s % 10 == 0 ? 0 : random.NextBelow(s % 7 == 0 ? 6000 : 300) + 1;
    sums.push_back(Normals(count, s + 2));
    ordered.push_back({sums.back().data(), {}, count, s % 3 == 0});
    for (int t = random.NextBelow(5); t >= 0; --t) {
      ordered.back().terms.push_back(pool.data() + random.NextBelow(kPool - 6000));
    }
    if (count > 0) num_terms += ordered.back().terms.size();
  }
  expected = sums;
  std::vector<OrderedSum> there = ordered;
  for (int s = 0; s < kSums; ++s) there[s].sum = expected[s].data();
  Device::Cpu()->AddUp(there);
  const std::vector<SumTable> tables = SumTablesOf(ordered);
  EXPECT_LE(static_cast<int64_t>(tables.size()),
            std::max<int64_t>(num_terms / (SumTable::kMaxTerms - 5), 450 / SumTable::kMaxSums) + 1);
  RunAll(tables);
  EXPECT_EQ(sums, expected);
}

TEST(SumTablesTest, NoTableWithoutElements) {
  const float term = 1;
  float sum = 2;
  EXPECT_THAT(SumTablesOf({}), IsEmpty());
  EXPECT_THAT(SumTablesOf({{&sum, {&term}, 0}}), IsEmpty());
  std::vector<OrderedSum> copies(SumTable::kMaxSums, {&sum, {&term}, 1});
  EXPECT_THAT(SumTablesOf(copies), SizeIs(1));
  copies.push_back(copies[0]);
  EXPECT_THAT(SumTablesOf(copies), SizeIs(2));
}

}  // namespace
}  // namespace dpipe::cuda

#include "core/train/compression/low_rank.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {

namespace {

// Returns a [rows, columns] matrix whose `diagonal` has min(rows, columns) numbers.
std::vector<float> Diagonal(const std::vector<float>& diagonal, int64_t rows, int64_t columns) {
  std::vector<float> m(rows * columns, 0.0f);
  for (size_t i = 0; i < diagonal.size(); ++i) m[i * columns + i] = diagonal[i];
  return m;
}

TEST(LowRankTest, ADiagonalMatrixHasItsNumbersAsSingularValues) {
  const std::vector<float> m = Diagonal({0, 10, -0.1f, 1, 0.05f, -100}, 6, 9);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto squares = LeadingSquaredSingularValues(m.data(), 6, 9, 3, seed);
    ASSERT_EQ(squares.size(), 3u);
    EXPECT_NEAR(squares[0], 10000, 1) << seed;
    EXPECT_NEAR(squares[1], 100, 0.1) << seed;
    EXPECT_NEAR(squares[2], 1, 0.01) << seed;
  }
}

// The iteration may not yet have separated close values. The first `count` of them then add up to
// no more than the largest ones, and all of them to the whole matrix.
TEST(LowRankTest, CloseSingularValuesAddUp) {
  const std::vector<float> m = Diagonal({3, 5, -4, 1, 6, -2}, 9, 6);
  const std::vector<double> known = {36, 25, 16, 9, 4, 1};
  for (int count = 1; count <= 6; ++count) {
    const auto squares = LeadingSquaredSingularValues(m.data(), 9, 6, count, /*seed=*/1);
    ASSERT_EQ(squares.size(), static_cast<size_t>(count));
    EXPECT_TRUE(std::is_sorted(squares.rbegin(), squares.rend()));
    const double sum = std::accumulate(squares.begin(), squares.end(), 0.0);
    const double exact = std::accumulate(known.begin(), known.begin() + count, 0.0);
    EXPECT_LE(sum, exact * (1 + 1e-6)) << count;
    if (count == 6) {
      EXPECT_GE(sum, exact * (1 - 1e-6));
    }
  }
  EXPECT_EQ(LeadingSquaredSingularValues(m.data(), 9, 6, 50, /*seed=*/1).size(), 6u);
}

TEST(LowRankTest, AMatrixOfZerosHasNone) {
  const std::vector<float> m(20, 0.0f);
  EXPECT_THAT(LeadingSquaredSingularValues(m.data(), 4, 5, 2, /*seed=*/1),
              ::testing::ElementsAre(0, 0));
}

TEST(LowRankTest, ColumnsBecomeOrthonormalAndDependentOnesZero) {
  const int64_t n = 30, r = 4;
  std::vector<float> p(n * r);
  RandomStream random(1, 0, 0, RandomPurpose::kTest);
  for (int64_t i = 0; i < n; ++i) {
    float* row = &p[i * r];
    row[0] = random.NextNormal();
    row[1] = 100 * random.NextNormal();
    row[2] = 2 * row[0] - row[1];
    row[3] = row[0] + random.NextNormal();
  }
  Orthonormalise(p.data(), n, r);
  for (int64_t a = 0; a < r; ++a) {
    for (int64_t b = 0; b < r; ++b) {
      double dot = 0;
      for (int64_t i = 0; i < n; ++i) dot += static_cast<double>(p[i * r + a]) * p[i * r + b];
      EXPECT_NEAR(dot, a == b && a != 2 ? 1 : 0, 1e-6) << a << ", " << b;
    }
  }
}

using Layers = std::vector<std::vector<CompressionChoice>>;

TEST(ChooseRanksTest, ByHand) {
  // For the second layer a small size costs little error, for the first layer a lot.
  const Layers layers = {{{10, 9}, {20, 1}}, {{10, 2}, {40, 1}}};
  EXPECT_EQ(ChooseUnderBudget(layers, 3.01, {1, 1}), (std::vector<int>{1, 0}));
  EXPECT_EQ(ChooseUnderBudget(layers, 11.01, {1, 1}), (std::vector<int>{0, 0}));
  EXPECT_EQ(ChooseUnderBudget(layers, 2.01, {1, 1}), (std::vector<int>{1, 1}));
  EXPECT_EQ(ChooseUnderBudget(layers, 1, {1, 0}), (std::vector<int>{1, 0})) << "nothing fits";
}

// Gradients that have overflowed: none of their errors is within a budget.
TEST(ChooseRanksTest, NonFiniteErrorsFitNoBudget) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Layers layers = {{{10, inf}, {20, 1}}, {{10, nan}, {40, 1}}, {{10, 1}, {40, 0.5}}};
  EXPECT_EQ(ChooseUnderBudget(layers, 3.01, {1, 1, 1}), (std::vector<int>{1, 1, 0}));
  for (double budget : {inf, -inf, nan}) {
    EXPECT_EQ(ChooseUnderBudget(layers, budget, {1, 1, 1}), (std::vector<int>{1, 1, 1})) << budget;
  }
}

// Compares with every combination: within the budget, and no larger than the best one that leaves
// one bin per layer unused, which is the maximum cost of rounding up.
TEST(ChooseRanksTest, AgainstBruteForce) {
  for (int i = 0; i < 300; ++i) {
    RandomStream stream(71, i, 0, RandomPurpose::kTest);
    Layers layers(1 + stream.NextBelow(5));
    std::vector<int> fallback;
    double budget = 0;
    for (auto& choices : layers) {
      choices.resize(1 + stream.NextBelow(4));
      for (CompressionChoice& choice : choices) {
        choice = {1 + static_cast<int64_t>(stream.NextBelow(100)), stream.NextUniform()};
      }
      fallback.push_back(static_cast<int>(stream.NextBelow(choices.size())));
      budget += choices[fallback.back()].error;
    }
    const int bins = 2000;
    const std::vector<int> chosen = ChooseUnderBudget(layers, budget, fallback, bins);
    const double safe = budget * (1 - static_cast<double>(layers.size()) / bins);
    int64_t best = 0, size = 0;
    double error = 0;
    for (size_t l = 0; l < layers.size(); ++l) {
      size += layers[l][chosen[l]].size;
      error += layers[l][chosen[l]].error;
      best += layers[l][fallback[l]].size;
    }
    EXPECT_LE(error, budget * (1 + 1e-12));
    std::vector<size_t> index(layers.size(), 0);
    for (bool more = true; more;) {
      double sum = 0;
      int64_t total = 0;
      for (size_t l = 0; l < layers.size(); ++l) {
        sum += layers[l][index[l]].error;
        total += layers[l][index[l]].size;
      }
      if (sum <= safe) best = std::min(best, total);
      more = false;
      for (size_t l = 0; l < layers.size() && !more; ++l) {
        more = ++index[l] < layers[l].size();
        if (!more) index[l] = 0;
      }
    }
    EXPECT_LE(size, best) << i;
  }
}

}  // namespace

}  // namespace dpipe

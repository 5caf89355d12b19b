#include "core/ops/attention/softmax.h"

#include <cmath>
#include <limits>
#include <vector>

#include "core/base/philox.h"
#include "gtest/gtest.h"

namespace dpipe::ops {
namespace {

std::vector<float> RandomRows(int64_t n, float scale, uint64_t seed) {
  RandomStream random(seed, 0, 0, RandomPurpose::kTest);
  std::vector<float> values(n);
  for (float& v : values) v = scale * random.NextNormal();
  return values;
}

std::vector<double> Expected(const SoftmaxRows& rows, const std::vector<float>& scores) {
  std::vector<double> p(scores.size(), 0.0);
  for (int64_t r = 0; r < rows.rows; ++r) {
    const int64_t n = rows.causal ? rows.first_row + r + 1 : rows.columns;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = r * rows.columns; i < r * rows.columns + n; ++i) {
      largest = std::max(largest, double{rows.scale} * scores[i]);
    }
    for (int64_t i = r * rows.columns; i < r * rows.columns + n; ++i) {
      sum += p[i] = std::exp(double{rows.scale} * scores[i] - largest);
    }
    for (int64_t i = r * rows.columns; i < r * rows.columns + n; ++i) p[i] /= sum;
  }
  return p;
}

// Scores of up to 200 after scaling have an error of 2^-24 * 200 in the exponent: 1.2e-5
// relatively. Values below 1e-37 may come out as 1.6e-38.
TEST(SoftmaxTest, AgreesWithDoubles) {
  for (int64_t columns : {1, 2, 15, 16, 17, 64, 77, 300}) {
    for (bool causal : {false, true}) {
      const SoftmaxRows rows = {causal ? std::min<int64_t>(columns, 9) : 5, columns, causal,
                                causal ? columns - std::min<int64_t>(columns, 9) : 0, 0.25f};
      std::vector<float> x = RandomRows(rows.rows * columns, 200, columns);
      const std::vector<double> expected = Expected(rows, x);
      std::vector<float> log_sums(rows.rows), again = x;
      Softmax(rows, x.data(), log_sums.data());
      SoftmaxFromLogSums(rows, log_sums.data(), again.data());
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(x[i], expected[i], 2e-5 * expected[i] + 1e-37) << columns << " at " << i;
        ASSERT_NEAR(again[i], expected[i], 4e-5 * expected[i] + 1e-37) << columns << " at " << i;
      }
    }
  }
}

TEST(SoftmaxTest, HugeScoresDoNotOverflow) {
  std::vector<float> x = {3e38f, 3e38f, -3e38f, 0};
  Softmax({1, 4, false, 0, 1.0f}, x.data(), nullptr);
  EXPECT_EQ(x[0], 0.5f);
  EXPECT_EQ(x[1], 0.5f);
  EXPECT_LT(x[2], 1e-37f);
  EXPECT_LT(x[3], 1e-37f);
}

TEST(SoftmaxTest, NanSpreadsOverItsRowOnly) {
  for (int64_t place : {0, 5, 18}) {
    std::vector<float> x = RandomRows(2 * 19, 1, 1);
    x[place] = std::numeric_limits<float>::quiet_NaN();
    Softmax({2, 19, false, 0, 1.0f}, x.data(), nullptr);
    for (int64_t i = 0; i < 19; ++i) EXPECT_TRUE(std::isnan(x[i])) << place;
    for (int64_t i = 19; i < 38; ++i) EXPECT_FALSE(std::isnan(x[i])) << place;
  }
}

TEST(SoftmaxTest, GradientByTheDefinition) {
  for (int64_t columns : {1, 7, 16, 50}) {
    const SoftmaxRows rows = {3, columns, false, 0, 0.5f};
    std::vector<float> p = RandomRows(3 * columns, 1, 2), g = RandomRows(3 * columns, 1, 3);
    Softmax(rows, p.data(), nullptr);
    const std::vector<float> dp = g;
    SoftmaxGrad(rows, p.data(), g.data());
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t i = 0; i < columns; ++i) {
        // Through the Jacobian: dp_j / ds_i = scale * p_j * (delta_ij - p_i).
        double expected = 0;
        for (int64_t j = 0; j < columns; ++j) {
          expected += 0.5 * dp[r * columns + j] * p[r * columns + j] *
                      ((i == j) - double{p[r * columns + i]});
        }
        ASSERT_NEAR(g[r * columns + i], expected, 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace dpipe::ops

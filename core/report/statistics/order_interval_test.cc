#include "core/report/statistics/order_interval.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "core/report/statistics/known_distributions.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

TEST(OrderIntervalTest, IsChosenByTheSignTest) {
  // At most one of 10 samples below the median: (1 + 10) / 1024, twice that is 2.1 %.
  const Interval interval = OrderInterval({10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 0.95);
  EXPECT_EQ(interval.estimate, 5.5);
  EXPECT_EQ(interval.low, 2);
  EXPECT_EQ(interval.high, 9);
  EXPECT_EQ(OrderInterval({10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 0.99).low, 1);
}

TEST(OrderIntervalTest, FewSamplesAreUnbounded) {
  EXPECT_TRUE(std::isinf(OrderInterval({1, 2, 3, 4, 5}, 0.95).high));
  EXPECT_EQ(OrderInterval({1, 2, 3, 4, 5, 6}, 0.95).high, 6);
  EXPECT_TRUE(std::isnan(OrderInterval({}, 0.95).low));
}

TEST(OrderIntervalTest, HasNominalCoverageForAnyNumberOfSamples) {
  for (const int count : {6, 10, 25}) {
    for (const double confidence : {0.95, 0.99}) {
      int held = 0;
      for (uint32_t trial = 0; trial < 2000; ++trial) {
        held += OrderInterval(SkewedSamples(count, 10, 1, trial), confidence).Contains(10);
      }
      // Two standard deviations of a share of 2,000 below.
      const double deviation = std::sqrt(confidence * (1 - confidence) / 2000);
      EXPECT_GE(held / 2000.0, confidence - 2 * deviation) << count;
    }
  }
}

// Includes counts for which the probability of the outermost samples underflows.
TEST(OrderIntervalTest, WidthOfThousandsOfSamplesMatchesTheNormal) {
  for (const int count : {1000, 1074, 1075, 1200, 20'000}) {
    std::vector<double> ranks(count);
    std::iota(ranks.begin(), ranks.end(), 0.0);
    const Interval interval = OrderInterval(ranks, 0.99);
    // The number below the median is nearly normal: 2.576 deviations of sqrt(count) / 2.
    const double expected = 0.5 * count - 2.576 * 0.5 * std::sqrt(count);
    EXPECT_NEAR(interval.low, expected, 2) << count;
    EXPECT_NEAR(interval.high, count - 1 - interval.low, 1e-9) << count;
  }
}

}  // namespace
}  // namespace dpipe::report

#include "core/report/statistics/mean_interval.h"

#include <cmath>

#include "core/report/statistics/known_distributions.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

// Values from printed tables; both tails.
TEST(MeanIntervalTest, QuantilesMatchTables) {
  EXPECT_NEAR(StudentQuantile(1, 0.05), 12.706, 0.0005);
  EXPECT_NEAR(StudentQuantile(2, 0.05), 4.303, 0.0005);
  EXPECT_NEAR(StudentQuantile(3, 0.01), 5.841, 0.0005);
  EXPECT_NEAR(StudentQuantile(5, 0.001), 6.869, 0.0005);
  EXPECT_NEAR(StudentQuantile(10, 0.01), 3.169, 0.0005);
  EXPECT_NEAR(StudentQuantile(30, 0.001), 3.646, 0.0005);
}

TEST(MeanIntervalTest, ByHand) {
  // The variance is (4 + 0 + 4) / 2, so the standard error is sqrt(4 / 3), with 2 degrees of
  // freedom.
  const Interval interval = MeanInterval({8, 10, 12}, 0.95);
  EXPECT_EQ(interval.estimate, 10);
  EXPECT_NEAR(interval.high, 10 + 4.3027 * std::sqrt(4.0 / 3), 0.001);
  EXPECT_NEAR(interval.low, 10 - 4.3027 * std::sqrt(4.0 / 3), 0.001);
}

TEST(MeanIntervalTest, OneSampleIsUnboundedAndEqualOnesAreExact) {
  EXPECT_TRUE(std::isinf(MeanInterval({3}, 0.5).high));
  EXPECT_EQ(MeanInterval({3, 3, 3}, 0.99).low, 3);
  EXPECT_TRUE(std::isnan(MeanInterval({}, 0.99).estimate));
}

TEST(MeanIntervalTest, HasNominalCoverage) {
  for (const int count : {2, 4, 12}) {
    for (const double confidence : {0.95, 0.99}) {
      int held = 0;
      for (uint32_t trial = 0; trial < 4000; ++trial) {
        held += MeanInterval(NormalSamples(count, 10, 1, trial), confidence).Contains(10);
      }
      // Three standard deviations of a share of 4,000.
      const double deviation = std::sqrt(confidence * (1 - confidence) / 4000);
      EXPECT_NEAR(held / 4000.0, confidence, 3 * deviation) << count;
    }
  }
}

}  // namespace
}  // namespace dpipe::report

#include "core/report/statistics/intervals.h"

#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "core/report/testing/known_distributions.h"
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

constexpr int kTrials = 500;

// Returns the share of trials whose interval contains the truth.
double Coverage(double truth, const std::function<Interval(uint32_t)>& interval) {
  int held = 0;
  for (uint32_t trial = 0; trial < kTrials; ++trial) held += interval(trial).Contains(truth);
  return static_cast<double>(held) / kTrials;
}

BootstrapOptions Fast(double confidence = 0.95) {
  BootstrapOptions options;
  options.confidence = confidence;
  options.resamples = 400;
  return options;
}

TEST(BootstrapTest, EstimateIsTheMedianOfTheSamples) {
  const Interval interval = MedianInterval({4, 1, 2, 3, 3, 100});
  EXPECT_EQ(interval.estimate, 3);
  EXPECT_GE(interval.low, 1);
  EXPECT_LE(interval.high, 100);
}

TEST(BootstrapTest, EstimateOfFewSamplesIsTheirMedian) {
  const Interval interval = MedianInterval({4, 1, 2, 3, 100});
  EXPECT_EQ(interval.estimate, 3);
  EXPECT_LT(interval.low, 1);
  EXPECT_GT(interval.high, 50);
}

TEST(BootstrapTest, EqualSamplesHaveNoWidthAndNoSamplesAreNan) {
  EXPECT_EQ(MedianInterval({0.1, 0.1, 0.1}).low, 0.1);
  EXPECT_EQ(MedianInterval({0.1, 0.1, 0.1}).high, 0.1);
  const Interval sure = MedianInterval({5, 5, 5, 5});
  EXPECT_EQ(sure.low, 5);
  EXPECT_EQ(sure.high, 5);
  EXPECT_TRUE(std::isnan(MedianInterval({}).estimate));
  EXPECT_TRUE(std::isnan(RatioInterval({}, {1}).low));
}

TEST(BootstrapTest, SameSamplesAndSeedGiveTheSameInterval) {
  const auto samples = NormalSamples(20, 10, 1, 0);
  EXPECT_EQ(MedianInterval(samples).low, MedianInterval(samples).low);
  EXPECT_EQ(MedianInterval(samples).high, MedianInterval(samples).high);
}

TEST(BootstrapTest, MedianIntervalsHaveAboutNominalCoverage) {
  for (const int count : {15, 40}) {
    const double normal = Coverage(10, [&](uint32_t trial) {
      return MedianInterval(NormalSamples(count, 10, 1, trial), Fast());
    });
    const double skewed = Coverage(10, [&](uint32_t trial) {
      return MedianInterval(SkewedSamples(count, 10, 1, trial), Fast());
    });
    EXPECT_GT(normal, 0.90) << count;
    EXPECT_LT(normal, 0.99) << count;
    EXPECT_GT(skewed, 0.90) << count;
    EXPECT_LT(skewed, 0.99) << count;
  }
}

// The median of a resampling is never beyond the samples; a few samples are too often all on one
// side of the truth.
TEST(BootstrapTest, IntervalsOfFewSamplesHaveNominalCoverage) {
  for (const uint32_t count : {2, 3, 4, 5}) {
    const auto samples = [=](uint32_t trial) { return NormalSamples(count, 10, 1, trial); };
    const double median =
        Coverage(10, [&](uint32_t trial) { return MedianInterval(samples(trial), Fast()); });
    const double skewed = Coverage(10, [&](uint32_t trial) {
      return MedianInterval(SkewedSamples(count, 10, 1, trial), Fast());
    });
    const double paired = Coverage(1, [&](uint32_t trial) {
      return PairedRatioInterval(samples(2 * trial), samples(2 * trial + 1), Fast());
    });
    const double apart = Coverage(1, [&](uint32_t trial) {
      return RatioInterval(samples(2 * trial), samples(2 * trial + 1), Fast());
    });
    EXPECT_GT(median, 0.925) << count;
    EXPECT_GT(skewed, 0.90) << count;
    EXPECT_GT(paired, 0.925) << count;
    EXPECT_GT(apart, 0.925) << count;
    EXPECT_LT(median, 0.975) << count;
    EXPECT_LT(paired, 0.975) << count;
  }
}

TEST(BootstrapTest, RatioOfSingleSamplesIsExactAndOfOneToManyUnbounded) {
  const Interval exact = RatioInterval({3}, {2});
  EXPECT_EQ(exact.low, 1.5);
  EXPECT_EQ(exact.high, 1.5);
  EXPECT_EQ(MedianInterval({7}).low, 7);
  const Interval unknown = RatioInterval({3}, {2, 2, 2});
  EXPECT_EQ(unknown.estimate, 1.5);
  EXPECT_EQ(unknown.low, 0);
  EXPECT_TRUE(std::isinf(unknown.high));
}

TEST(BootstrapTest, HigherConfidenceIsWider) {
  const auto samples = SkewedSamples(30, 10, 1, 3);
  const Interval narrow = MedianInterval(samples, Fast(0.5));
  const Interval wide = MedianInterval(samples, Fast(0.99));
  EXPECT_LT(wide.low, narrow.low);
  EXPECT_GT(wide.high, narrow.high);
}

TEST(BootstrapTest, RatioIntervalsContainTheTrueRatio) {
  const double coverage = Coverage(1.25, [](uint32_t trial) {
    return RatioInterval(NormalSamples(15, 125, 5, trial), SkewedSamples(20, 100, 5, trial),
                         Fast());
  });
  EXPECT_GT(coverage, 0.90);
  EXPECT_LT(coverage, 0.995);
}

TEST(BootstrapTest, PairsCancelCommonNoise) {
  double paired_width = 0, independent_width = 0;
  const double coverage = Coverage(1.05, [&](uint32_t trial) {
    // The machine is up to twice as slow for minutes; each turn has 1 % of its own noise.
    auto a = NormalSamples(15, 1.05, 0.0105, 2 * trial);
    auto b = NormalSamples(15, 1.00, 0.0100, 2 * trial + 1);
    for (int i = 0; i < 15; ++i) {
      const double slow = 1 + 0.5 * (1 + std::sin(0.5 * i + trial));
      a[i] *= slow, b[i] *= slow;
    }
    const Interval paired = PairedRatioInterval(a, b, Fast());
    const Interval independent = RatioInterval(a, b, Fast());
    paired_width += paired.high - paired.low;
    independent_width += independent.high - independent.low;
    return paired;
  });
  EXPECT_GT(coverage, 0.90);
  EXPECT_LT(10 * paired_width, independent_width);
}

TEST(BootstrapTest, PairedRatioOfSwappedSidesIsTheInverse) {
  const auto a = SkewedSamples(9, 10, 1, 1), b = NormalSamples(9, 8, 1, 2);
  const Interval ratio = PairedRatioInterval(a, b), inverse = PairedRatioInterval(b, a);
  EXPECT_NEAR(ratio.estimate * inverse.estimate, 1, 1e-12);
  EXPECT_NEAR(ratio.low * inverse.high, 1, 1e-12);
}

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

#include "core/report/statistics/bootstrap.h"

#include <cmath>
#include <functional>

#include "core/report/statistics/known_distributions.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

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

}  // namespace
}  // namespace dpipe::report

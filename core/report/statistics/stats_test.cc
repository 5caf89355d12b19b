#include "core/report/statistics/stats.h"

#include <algorithm>
#include <cmath>

#include "core/report/testing/known_distributions.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::report {

namespace {

TEST(MedianTest, OddEvenAndEmpty) {
  EXPECT_EQ(Median({5, 1, 3}), 3);
  EXPECT_EQ(Median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(Median({7}), 7);
  EXPECT_TRUE(std::isnan(Median({})));
}

TEST(SpreadTest, ByHand) {
  // Median 4; deviations 3, 2, 0, 1, 96 with median 2: one outlier does not move it.
  const Spread spread = SpreadOf({1, 2, 4, 5, 100});
  EXPECT_EQ(spread.min, 1);
  EXPECT_EQ(spread.max, 100);
  EXPECT_EQ(spread.mad, 2);
}

TEST(SpreadTest, OfNothingIsNotANumber) {
  EXPECT_TRUE(std::isnan(SpreadOf({}).min));
  EXPECT_TRUE(std::isnan(SpreadOf({}).mad));
}

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(OutliersTest, OneFarSampleIsFoundOnEitherSide) {
  EXPECT_THAT(FindOutliers({10, 11, 10, 30, 9}), ElementsAre(false, false, false, true, false));
  EXPECT_THAT(FindOutliers({10, 11, -9, 10, 9}), ElementsAre(false, false, true, false, false));
}

TEST(OutliersTest, FewOrEqualSamplesHaveNone) {
  EXPECT_THAT(FindOutliers({}), IsEmpty());
  EXPECT_THAT(FindOutliers({1, 2, 1000}), Each(false));
  EXPECT_THAT(FindOutliers({7, 7, 7, 7, 7}), Each(false));
}

TEST(OutliersTest, OnlyFarSamplesAreOutliersIfMostAreEqual) {
  const auto outliers = FindOutliers({7, 7, 7, 7, 7, 7, 7, 7, 7, 9});
  EXPECT_TRUE(outliers.back());
  EXPECT_EQ(std::count(outliers.begin(), outliers.end(), true), 1);
}

TEST(OutliersTest, NormalNoiseHasAboutOneInTwoThousand) {
  const auto outliers = FindOutliers(NormalSamples(20'000, 5, 2, 0));
  const auto count = std::count(outliers.begin(), outliers.end(), true);
  EXPECT_GE(count, 2);
  EXPECT_LE(count, 25);
}

TEST(OutliersTest, EveryPlantedOutlierIsFound) {
  auto samples = NormalSamples(200, 100, 1, 7);
  for (const int i : {3, 70, 199}) samples[i] += 15;
  const auto outliers = FindOutliers(samples);
  for (const int i : {3, 70, 199}) EXPECT_TRUE(outliers[i]) << i;
  EXPECT_LE(std::count(outliers.begin(), outliers.end(), true), 4);
}

constexpr int kTrials = 500;

TEST(WarmUpTest, SlowFirstSamplesAreFound) {
  EXPECT_EQ(WarmUpLength({20, 15, 10.1, 10, 9.9, 10, 10.2, 10}), 2);
  EXPECT_EQ(WarmUpLength({5, 10.1, 10, 9.9, 10, 10.2, 10, 9.9}), 1) << "fast samples count too";
  EXPECT_EQ(WarmUpLength({20, 10, 15, 10, 9.9, 10, 10.2, 10}), 1) << "later samples do not count";
}

TEST(WarmUpTest, FewSamplesHaveNone) {
  EXPECT_EQ(WarmUpLength({}), 0);
  EXPECT_EQ(WarmUpLength({100, 1, 1, 1, 1}), 0);
}

TEST(WarmUpTest, EqualSamplesAreSettled) { EXPECT_EQ(WarmUpLength({3, 3, 3, 3, 3, 3, 3}), 0); }

TEST(WarmUpTest, MachineChangeIsNotWarmUp) {
  EXPECT_EQ(WarmUpLength({20, 20, 20, 20, 20, 10, 10, 10}), 0);
  EXPECT_EQ(WarmUpLength({31.4, 32.7, 31.9, 32.6, 31.6, 30.2, 26, 30, 26.4, 26.2}), 0);
}

TEST(WarmUpTest, NoiseRarelyLooksLikeWarmUp) {
  int normal = 0, skewed = 0;
  for (uint32_t trial = 0; trial < kTrials; ++trial) {
    normal += WarmUpLength(NormalSamples(15, 100, 3, trial)) > 0;
    skewed += WarmUpLength(SkewedSamples(15, 100, 3, trial)) > 0;
  }
  EXPECT_LE(normal, 0.02 * kTrials);
  // A long tail has single slow samples, which come first more often than with normal noise.
  EXPECT_LE(skewed, 0.08 * kTrials);
}

TEST(WarmUpTest, WarmUpEndsWhenTheDecayReachesTheNoise) {
  int found = 0;
  for (uint32_t trial = 0; trial < kTrials; ++trial) {
    auto samples = NormalSamples(40, 100, 1, trial);
    for (int i = 0; i < 40; ++i)
      samples[i] += 50 * std::exp(-i / 2.0);  // over 5 deviations until i = 4
    const int length = WarmUpLength(samples);
    found += 4 <= length && length <= 7;
  }
  EXPECT_GE(found, 0.95 * kTrials);
}

}  // namespace

}  // namespace dpipe::report

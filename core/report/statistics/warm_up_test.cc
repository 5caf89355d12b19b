#include "core/report/statistics/warm_up.h"

#include <cmath>

#include "core/report/statistics/known_distributions.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

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

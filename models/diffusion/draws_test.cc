#include "models/diffusion/draws.h"

#include <cmath>
#include <vector>

#include "core/ops/testing/op_testing.h"

namespace dpipe::diffusion {
namespace {

using ops::ExpectSameBits;
using ops::Values;

TEST(DrawsTest, NoiseBelongsToTheSampleNotToTheBatch) {
  const auto cpu = Device::Cpu();
  const Tensor all = DrawNoise(cpu, 1, 2, 10, {6, 3, 5});
  ExpectSameBits(DrawNoise(cpu, 1, 2, 12, {2, 3, 5}), all.Slice(2, 4));
  const Tensor t = DrawTimesteps(cpu, 1, 2, 10, 6, 1000);
  ExpectSameBits(DrawTimesteps(cpu, 1, 2, 12, 2, 1000), t.Slice(2, 4));
}

TEST(DrawsTest, EveryPartOfTheKeyMatters) {
  const auto cpu = Device::Cpu();
  const std::vector<double> base = Values(DrawNoise(cpu, 1, 2, 3, {1, 4}));
  EXPECT_NE(Values(DrawNoise(cpu, 9, 2, 3, {1, 4})), base);
  EXPECT_NE(Values(DrawNoise(cpu, 1, 9, 3, {1, 4})), base);
  EXPECT_NE(Values(DrawNoise(cpu, 1, 2, 9, {1, 4})), base);
  EXPECT_NE(Values(DrawNoise(cpu, 1, 2, 3, {1, 4}, RandomPurpose::kSample)), base);
}

TEST(DrawsTest, NoiseIsStandardNormal) {
  const std::vector<double> v = Values(DrawNoise(Device::Cpu(), 7, 0, 0, {100, 1000}));
  double mean = 0, square = 0, beyond_two = 0;
  for (double x : v) {
    mean += x / v.size();
    square += x * x / v.size();
    beyond_two += (std::abs(x) > 2) / static_cast<double>(v.size());
  }
  // Five standard deviations of the means of 1e5 draws.
  EXPECT_NEAR(mean, 0, 5 / std::sqrt(1e5));
  EXPECT_NEAR(square, 1, 5 * std::sqrt(2 / 1e5));
  EXPECT_NEAR(beyond_two, 0.0455, 5 * std::sqrt(0.0455 / 1e5));
}

TEST(DrawsTest, TimestepsAreUniform) {
  constexpr int kDraws = 50000, kSteps = 10;
  int counts[kSteps] = {};
  const Tensor t = DrawTimesteps(Device::Cpu(), 7, 3, 0, kDraws, kSteps);
  for (int32_t v : t.span<int32_t>()) {
    ASSERT_TRUE(0 <= v && v < kSteps);
    ++counts[v];
  }
  for (int count : counts) EXPECT_NEAR(count, 5000, 5 * std::sqrt(4500.0));
}

// All pixels of a channel are shifted by one number, drawn per sample from N(0, strength^2).
TEST(DrawsTest, OffsetNoiseShiftsWholeChannels) {
  const auto cpu = Device::Cpu();
  constexpr int kSamples = 2000;
  const Tensor plain = DrawNoise(cpu, 1, 2, 10, {kSamples, 2, 2, 3});
  Tensor noise = DrawNoise(cpu, 1, 2, 10, {kSamples, 2, 2, 3});
  AddOffsetNoise(0.5, 1, 2, 10, &noise);
  double square = 0;
  for (int b = 0; b < kSamples; ++b) {
    for (int c = 0; c < 3; ++c) {
      const auto shift = [&](int pixel) {
        const int64_t i = (int64_t{b} * 4 + pixel) * 3 + c;
        return noise.data<float>()[i] - plain.data<float>()[i];
      };
      for (int pixel : {1, 2, 3}) EXPECT_NEAR(shift(pixel), shift(0), 1e-6);
      square += shift(0) * shift(0) / (3.0 * kSamples);
    }
  }
  // Five standard deviations of the mean of 6,000 squares, each of variance 2 strength^4.
  EXPECT_NEAR(square, 0.25, 5 * 0.25 * std::sqrt(2.0 / (3 * kSamples)));
  // A sample drawn alone gets the same noise.
  Tensor alone = DrawNoise(cpu, 1, 2, 13, {1, 2, 2, 3});
  AddOffsetNoise(0.5, 1, 2, 13, &alone);
  ExpectSameBits(alone, noise.Slice(3, 4));
}

TEST(DrawsTest, QuantilesGoRoundByTheSamplesNumber) {
  const Tensor t =
      TimestepsAtQuantiles(Device::Cpu(), {0, 0.5, 0.999}, /*first_sample=*/4, 3, 1000);
  EXPECT_EQ(t.data<int32_t>()[0], 500);
  EXPECT_EQ(t.data<int32_t>()[1], 999);
  EXPECT_EQ(t.data<int32_t>()[2], 0);
}

NoiseSchedule Linear() {
  NoiseScheduleOptions options;  // DDPM's
  options.beta_schedule = BetaSchedule::kLinear;
  options.beta_start = 1e-4;
  options.beta_end = 0.02;
  return *NoiseSchedule::Create(options);
}

TEST(TimestepSamplingTest, UniformMatchesDrawTimesteps) {
  const TimestepDistribution uniform(TimestepSampling::kUniform, Linear());
  ops::ExpectSameBits(uniform.Draw(Device::Cpu(), 1, 2, 10, 50),
                      DrawTimesteps(Device::Cpu(), 1, 2, 10, 50, 1000));
  EXPECT_EQ(uniform.Probability(7), 1e-3);
}

// With DDPM's betas, s(t) = sqrt(1 - abar_t) has the slope s' = abar_t beta_t / (2 s). It falls
// below 1e-4 between t = 650 and 750: abar_700 is about 0.0068, beta_700 0.014, s' about 5e-5.
TEST(TimestepSamplingTest, SpeedDrawsTheFlatEndAFifthAsOften) {
  const NoiseSchedule schedule = Linear();
  const TimestepDistribution speed(TimestepSampling::kSpeed, schedule);
  int border = 0;
  while (speed.Probability(border + 1) > 0.5 * speed.Probability(0)) ++border;
  EXPECT_GT(border, 550);
  EXPECT_LT(border, 750);
  const double abar = schedule.alpha_cumprod(border);
  EXPECT_NEAR(abar * (1e-4 + 0.0199 * border / 999) / (2 * std::sqrt(1 - abar)), 1e-4, 2e-6);
  double sum = 0;
  for (int t = 0; t < 1000; ++t) {
    sum += speed.Probability(t);
    EXPECT_NEAR(speed.Probability(t) * (t <= border ? 1 : 5), speed.Probability(0), 1e-12) << t;
  }
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(TimestepSamplingTest, SpeedDrawsMatchItsProbabilities) {
  const TimestepDistribution speed(TimestepSampling::kSpeed, Linear());
  constexpr int kDraws = 50000;
  const Tensor drawn = speed.Draw(Device::Cpu(), 7, 3, 0, kDraws);
  std::vector<int> counts(10, 0);
  for (int32_t t : drawn.span<int32_t>()) {
    ASSERT_TRUE(0 <= t && t < 1000);
    ++counts[t / 100];
  }
  for (int i = 0; i < 10; ++i) {
    double p = 0;
    for (int t = 100 * i; t < 100 * (i + 1); ++t) p += speed.Probability(t);
    EXPECT_NEAR(counts[i], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p))) << i;
  }
  ops::ExpectSameBits(speed.Draw(Device::Cpu(), 7, 3, 20, 5), drawn.Slice(20, 25));
}

}  // namespace
}  // namespace dpipe::diffusion

#include "models/diffusion/draws.h"

#include <cmath>

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

}  // namespace
}  // namespace dpipe::diffusion

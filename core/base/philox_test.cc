#include "core/base/philox.h"

#include <cmath>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Known answers of the reference implementation (Random123, kat_vectors).
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(PhiloxTest, StreamDependsOnEachKey) {
  auto first = [](uint64_t seed, uint64_t step, uint32_t sample, RandomPurpose purpose) {
    return RandomStream(seed, step, sample, purpose).NextUint32();
  };
  const uint32_t base = first(1, 2, 3, RandomPurpose::kNoise);
  EXPECT_EQ(base, first(1, 2, 3, RandomPurpose::kNoise));
  EXPECT_NE(base, first(2, 2, 3, RandomPurpose::kNoise));
  EXPECT_NE(base, first(1, 3, 3, RandomPurpose::kNoise));
  EXPECT_NE(base, first(1, 2, 4, RandomPurpose::kNoise));
  EXPECT_NE(base, first(1, 2, 3, RandomPurpose::kTimestep));
}

TEST(PhiloxTest, NormalsHaveUnitMoments) {
  RandomStream stream(7, 0, 0, RandomPurpose::kTest);
  double sum = 0, sum_squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double x = stream.NextNormal();
    sum += x;
    sum_squares += x * x;
  }
  // Five standard errors: 5/sqrt(n) for the mean, 5*sqrt(2/n) for the variance.
  EXPECT_NEAR(sum / kCount, 0.0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(sum_squares / kCount, 1.0, 5 * std::sqrt(2.0 / kCount));
}

TEST(PhiloxTest, BelowIsUniform) {
  RandomStream stream(7, 1, 0, RandomPurpose::kTest);
  std::array<int, 5> counts = {};
  for (int i = 0; i < 50000; ++i) ++counts[stream.NextBelow(5)];
  for (int count : counts) EXPECT_NEAR(count, 10000, 5 * 90);  // sd = sqrt(50000 * 0.16) = 89
}

}  // namespace
}  // namespace dpipe

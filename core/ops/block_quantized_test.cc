#include "core/ops/block_quantized.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace dpipe::ops {
namespace {

using Sign = BlockQuantized::Sign;

std::vector<float> RoundTrip(const std::vector<float>& values, int block_size, Sign sign) {
  BlockQuantized quantized(static_cast<int64_t>(values.size()), block_size, sign);
  quantized.Store(values);
  std::vector<float> result(values.size());
  quantized.Load(absl::MakeSpan(result));
  return result;
}

// Magnitudes over eight decades, as moments have them.
std::vector<float> Values(int count, Sign sign, int seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> exponent(-8, 0);
  std::vector<float> values;
  for (int i = 0; i < count; ++i) {
    const float magnitude = std::pow(10.0f, exponent(random)) * 37;
    values.push_back(sign == Sign::kSigned && random() % 2 ? -magnitude : magnitude);
  }
  return values;
}

TEST(BlockQuantizedTest, CodesAreIncreasingAndReachTheEnds) {
  EXPECT_EQ(SignedCodes().size(), 255u);
  EXPECT_EQ(UnsignedCodes().size(), 256u);
  for (const auto* codes : {&SignedCodes(), &UnsignedCodes()}) {
    EXPECT_TRUE(std::is_sorted(codes->begin(), codes->end()));
    EXPECT_EQ(std::adjacent_find(codes->begin(), codes->end()), codes->end());
    EXPECT_EQ(codes->back(), 1.0f);
  }
  for (size_t i = 0; i < 255; ++i) EXPECT_EQ(SignedCodes()[i], -SignedCodes()[254 - i]);
  // The middle of the first of 64 parts of [0.1, 1], and the only one of the last decade.
  EXPECT_FLOAT_EQ(SignedCodes()[127 + 64], 0.1f + 0.9f / 128);
  EXPECT_FLOAT_EQ(SignedCodes()[128], 5.5e-7f);
}

TEST(BlockQuantizedTest, RoundsToTheNearestCode) {
  for (Sign sign : {Sign::kSigned, Sign::kUnsigned}) {
    const std::vector<float>& codes = sign == Sign::kSigned ? SignedCodes() : UnsignedCodes();
    std::vector<float> values = Values(3000, sign, 1);
    values[0] = 64.0f;  // the scale: quotients are then exact
    const std::vector<float> rounded = RoundTrip(values, 3000, sign);
    for (size_t i = 0; i < values.size(); ++i) {
      double best = 1e9;
      for (float code : codes) {
        if (sign == Sign::kUnsigned && code == 0) continue;
        best = std::min(best, std::abs(double{code} * 64 - values[i]));
      }
      EXPECT_DOUBLE_EQ(std::abs(double{rounded[i]} - values[i]), best) << values[i];
    }
  }
}

// Half the width of a part of the decade that the quotient is in: 0.9 * 10^-k / 2^(7-k) signed.
TEST(BlockQuantizedTest, TheErrorIsBoundedByTheBlocksLargest) {
  constexpr int kBlock = 256;
  for (Sign sign : {Sign::kSigned, Sign::kUnsigned}) {
    const std::vector<float> values = Values(4096, sign, 2);
    const std::vector<float> rounded = RoundTrip(values, kBlock, sign);
    for (size_t begin = 0; begin < values.size(); begin += kBlock) {
      float largest = 0;
      for (size_t i = begin; i < begin + kBlock; ++i) {
        largest = std::max(largest, std::abs(values[i]));
      }
      for (size_t i = begin; i < begin + kBlock; ++i) {
        const double quotient = std::abs(values[i]) / largest;
        const int decade = std::min(6, static_cast<int>(-std::log10(quotient)));
        const double parts = std::pow(2.0, (sign == Sign::kSigned ? 6 : 7) - decade);
        // Between decades the neighbours are as far apart as those of the coarser one; the highest
        // signed code is 1 instead of its part's middle.
        const double width = 0.9 * std::pow(10.0, -decade) / parts;
        EXPECT_LE(std::abs(rounded[i] - values[i]) / largest, width) << quotient;
      }
    }
  }
}

// A saved run goes on with the same numbers.
TEST(BlockQuantizedTest, WhatWasDequantisedIsKeptAsItIs) {
  for (Sign sign : {Sign::kSigned, Sign::kUnsigned}) {
    for (int block_size : {1, 100, 256, 2048}) {
      const std::vector<float> once = RoundTrip(Values(5000, sign, 3), block_size, sign);
      EXPECT_EQ(RoundTrip(once, block_size, sign), once) << block_size;
    }
  }
}

TEST(BlockQuantizedTest, NoPositiveNumberBecomesZeroAndZeroStays) {
  std::vector<float> values = {1e4f, 1e-30f, 0.0f, 3.0f};
  const std::vector<float> rounded = RoundTrip(values, 4, Sign::kUnsigned);
  EXPECT_GT(rounded[1], 0);
  EXPECT_EQ(rounded[2], 0);
  EXPECT_EQ(RoundTrip({0, 0, 0}, 2, Sign::kSigned), std::vector<float>({0, 0, 0}));
  BlockQuantized fresh(5, 2, Sign::kSigned);
  std::vector<float> loaded(5, 1.0f);
  fresh.Load(absl::MakeSpan(loaded));
  EXPECT_EQ(loaded, std::vector<float>(5, 0.0f));
  EXPECT_EQ(fresh.size_bytes(), 5 + 3 * 4);
}

}  // namespace
}  // namespace dpipe::ops

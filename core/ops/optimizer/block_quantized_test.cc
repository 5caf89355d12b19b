#include "core/ops/optimizer/block_quantized.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "core/ops/cuda/emulated_gpu/emulated_device.h"
#include "gtest/gtest.h"

namespace dpipe::ops {
namespace {

using Sign = BlockQuantized::Sign;

Tensor Row(const std::vector<float>& values) {
  return Tensor::FromHost<float>(Device::Cpu(), {static_cast<int64_t>(values.size())}, values);
}

std::vector<float> RoundTrip(const std::vector<float>& values, int block_size, Sign sign) {
  const auto size = static_cast<int64_t>(values.size());
  BlockQuantized quantized(Device::Cpu(), size, block_size, sign);
  quantized.Store(Row(values));
  const Tensor loaded = quantized.Load({size});
  return {loaded.data<float>(), loaded.data<float>() + size};
}

std::vector<float> CodesOf(Sign sign) {
  const QuantizationCodes& codes = sign == Sign::kSigned ? kSignedCodes : kUnsignedCodes;
  std::vector<float> values;
  for (int i = 0; i < codes.count(); ++i) values.push_back(codes.value(i));
  return values;
}

// Magnitudes over eight decades, like those of moments.
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
  const std::vector<float> with_sign = CodesOf(Sign::kSigned), without = CodesOf(Sign::kUnsigned);
  EXPECT_EQ(with_sign.size(), 255u);
  EXPECT_EQ(without.size(), 256u);
  for (const auto* codes : {&with_sign, &without}) {
    EXPECT_TRUE(std::is_sorted(codes->begin(), codes->end()));
    EXPECT_EQ(std::adjacent_find(codes->begin(), codes->end()), codes->end());
    EXPECT_EQ(codes->back(), 1.0f);
  }
  for (size_t i = 0; i < 255; ++i) EXPECT_EQ(with_sign[i], -with_sign[254 - i]);
  // The middle of the first of 64 parts of [0.1, 1], and the only one of the last decade.
  EXPECT_FLOAT_EQ(with_sign[127 + 64], 0.1f + 0.9f / 128);
  EXPECT_FLOAT_EQ(with_sign[128], 5.5e-7f);
  EXPECT_EQ(with_sign[kSignedCodes.zero()], 0);
  EXPECT_EQ(without[kUnsignedCodes.zero()], 0);
}

// Against a search, around each boundary between codes and far from any.
TEST(BlockQuantizedTest, FindsTheNearestCode) {
  for (Sign sign : {Sign::kSigned, Sign::kUnsigned}) {
    const QuantizationCodes& codes = sign == Sign::kSigned ? kSignedCodes : kUnsignedCodes;
    const std::vector<float> values = CodesOf(sign);
    std::vector<float> bounds;
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      bounds.push_back(static_cast<float>((double{values[i]} + double{values[i + 1]}) / 2));
    }
    std::vector<float> quotients = {0.0f, -0.0f, 1.0f, 1e-38f, 1e-45f, 3e-8f};
    for (float x : values) quotients.push_back(x);
    for (float x : bounds) {
      for (float towards : {-2.0f, 2.0f}) quotients.push_back(std::nextafter(x, towards));
      if (x > 0) quotients.push_back(x);
    }
    for (float x : Values(20000, sign, 4)) quotients.push_back(x / 37);
    if (sign == Sign::kSigned) {
      for (size_t i = 0, n = quotients.size(); i < n; ++i) quotients.push_back(-quotients[i]);
    }
    for (float q : quotients) {
      if (sign == Sign::kUnsigned && q < 0) continue;
      const auto code =
          std::lower_bound(bounds.begin(), bounds.end(), std::abs(q)) - bounds.begin();
      ASSERT_EQ(codes.Nearest(q), q < 0 ? 254 - code : code) << q;
    }
  }
}

TEST(BlockQuantizedTest, RoundsToTheNearestCode) {
  for (Sign sign : {Sign::kSigned, Sign::kUnsigned}) {
    const std::vector<float> codes = CodesOf(sign);
    std::vector<float> values = Values(3000, sign, 1);
    values[0] = 64.0f;  // the scale, so that quotients are exact
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

// At most half the width of a part in the quotient's decade: 0.9 * 10^-k / 2^(7-k) signed.
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
        // Codes on both sides of a decade's end are as far apart as those of the coarser decade.
        // The highest signed code is 1 instead of its part's middle.
        const double width = 0.9 * std::pow(10.0, -decade) / parts;
        EXPECT_LE(std::abs(rounded[i] - values[i]) / largest, width) << quotient;
      }
    }
  }
}

// A saved run resumes with the same numbers.
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
  const BlockQuantized fresh(Device::Cpu(), 5, 2, Sign::kSigned);
  const Tensor loaded = fresh.Load({5});
  for (float x : loaded.span<float>()) EXPECT_EQ(x, 0);
  EXPECT_EQ(fresh.size_bytes(), 5 + 3 * 4);
}

TEST(BlockQuantizedTest, LoadingToTheHostTakesNothingOfADevice) {
  const auto far = std::make_shared<cuda::EmulatedDevice>();
  BlockQuantized quantized(far, 3, 2, Sign::kSigned);
  quantized.Store(Row({1, -3, 0.5f}));
  const int64_t used = far->allocator().stats().allocated_bytes;
  const Tensor here = quantized.LoadToHost({3, 1});
  EXPECT_EQ(far->allocator().stats().allocated_bytes, used);
  EXPECT_TRUE(here.device()->has_host_memory());
  EXPECT_EQ(here.shape(), Shape({3, 1}));
  const Tensor there = quantized.Load({3, 1});
  EXPECT_EQ(there.device(), far);
  EXPECT_EQ(far->allocator().stats().allocated_bytes, used + 12);
  const Tensor back = there.ToHost();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(here.data<float>()[i], back.data<float>()[i]);
}

TEST(BlockQuantizedTest, LoadsSquares) {
  BlockQuantized roots(Device::Cpu(), 3, 2, Sign::kUnsigned);
  roots.Store(Row({0, 3, 0.5f}));
  const Tensor squares = roots.LoadSquares({3, 1});
  EXPECT_EQ(squares.shape(), Shape({3, 1}));
  EXPECT_EQ(std::vector<float>(squares.data<float>(), squares.data<float>() + 3),
            std::vector<float>({0, 9, 0.25f}));
}

}  // namespace
}  // namespace dpipe::ops

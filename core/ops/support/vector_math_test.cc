#include "core/ops/support/vector_math.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace dpipe::ops {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float FromBits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

// Returns the maximum error, in units of the last place of the exact result (at least the smallest
// normal number's), over every 499th float of both signs with |x| <= limit.
template <typename F, typename G>
double WorstUlp(F f, G exact, float limit, float low = -kInf) {
  double worst = 0;
  for (uint32_t sign : {0u, 0x80000000u}) {
    for (uint32_t bits = 0; FromBits(bits) <= limit; bits += 499) {
      const float x = FromBits(bits | sign);
      if (x < low) continue;
      const double e = exact(static_cast<double>(x));
      int exponent;
      std::frexp(e, &exponent);
      const double ulp = std::ldexp(1.0, std::max(exponent, -125) - 24);
      worst = std::max(worst, std::abs(f(x) - e) / ulp);
    }
  }
  return worst;
}

TEST(VectorMathTest, Exp) {
  EXPECT_LE(WorstUlp([](float x) { return Exp(x); }, [](double x) { return std::exp(x); }, 88.7f),
            2.0);
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp(kInf), kInf);
  EXPECT_EQ(Exp(90.0f), kInf);
  EXPECT_EQ(Exp(-kInf), 0.0f);
  EXPECT_EQ(Exp(-200.0f), 0.0f);
  EXPECT_TRUE(std::isnan(Exp(kNan)));
  EXPECT_TRUE(std::isnan(Exp(-kNan)));
}

TEST(VectorMathTest, Erf) {
  EXPECT_LE(WorstUlp([](float x) { return Erf(x); }, [](double x) { return std::erf(x); }, 1e30f),
            3.0);
  EXPECT_EQ(Erf(kInf), 1.0f);
  EXPECT_EQ(Erf(-kInf), -1.0f);
  EXPECT_TRUE(std::signbit(Erf(-0.0f)));
  EXPECT_TRUE(std::isnan(Erf(kNan)));
}

TEST(VectorMathTest, Tanh) {
  EXPECT_LE(WorstUlp([](float x) { return Tanh(x); }, [](double x) { return std::tanh(x); }, 1e30f),
            3.0);
  EXPECT_EQ(Tanh(kInf), 1.0f);
  EXPECT_EQ(Tanh(-kInf), -1.0f);
  EXPECT_TRUE(std::isnan(Tanh(kNan)));
}

TEST(VectorMathTest, Sigmoid) {
  const auto exact = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LE(WorstUlp([](float x) { return Sigmoid(x); }, exact, 1e30f, -88.3f), 4.0);
  EXPECT_EQ(Sigmoid(-kInf), 0.0f);
  EXPECT_LE(Sigmoid(-89.0f), 1e-38f);
  EXPECT_EQ(Sigmoid(kInf), 1.0f);
}

// The absolute error matters here: gelu(x) is x Phi(x), and Phi near 0 is a difference of ones.
TEST(VectorMathTest, GeluAndItsDerivative) {
  for (float x = -12; x <= 12; x += 1.0f / 1024) {
    const double phi = std::exp(-0.5 * x * x) * 0.3989422804014327;
    const double cdf = 0.5 * std::erfc(-x / std::sqrt(2.0));
    ASSERT_NEAR(Gelu(x), x * cdf, 1.5e-7 * std::max(1.0f, std::abs(x))) << x;
    ASSERT_NEAR(GeluGrad(x), cdf + x * phi, 3e-7) << x;
  }
}

TEST(VectorMathTest, StoreRoundsLikeBf16) {
  for (uint32_t bits = 0; bits < 0xffffff00u; bits += 251) {
    const float x = FromBits(bits);
    Bf16 stored;
    Store(&stored, x);
    ASSERT_EQ(stored.bits, Bf16(x).bits) << bits;
  }
}

}  // namespace
}  // namespace dpipe::ops

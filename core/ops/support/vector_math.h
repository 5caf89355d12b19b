// exp, erf and tanh in fp32, without branches or calls, so that loops over them vectorize.
//
// Polynomials are Chebyshev interpolants on the reduced interval. vector_math_test asserts these
// bounds against the exact value, over every 499th float of the whole range:
//   Exp: 2 ulp for normal results; subnormal results are rounded twice (1.5e-45 absolute).
//   Erf, Tanh: 3 ulp.   Sigmoid: 4 ulp for x > -88.3, 0 (for about 4e-39) below.
// NaN gives NaN; infinities give the limits.
#ifndef DPIPE_CORE_OPS_SUPPORT_VECTOR_MATH_H_
#define DPIPE_CORE_OPS_SUPPORT_VECTOR_MATH_H_

#include <cstdint>
#include <cstring>

#include "core/ops/support/curves.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops {

// Returns 2^n for n in [-126, 127], infinity for 128.
DPIPE_VECTOR_INLINE float PowerOfTwo(int32_t n) {
  const uint32_t bits = static_cast<uint32_t>(n + 127) << 23;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

DPIPE_VECTOR_INLINE float Abs(float x) { return __builtin_fabsf(x); }
DPIPE_VECTOR_INLINE float Clamp(float x, float low, float high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

// exp(x) = fraction * 2^exponent with fraction in [0.7, 1.42], for |x| < 1000. NaN gives a NaN
// fraction and an arbitrary exponent.
struct SplitExp {
  float fraction;
  int32_t exponent;
};

DPIPE_VECTOR_INLINE SplitExp ExpParts(float x) {
  // exponent = round(x / ln 2): adding 1.5 * 2^23 leaves the integer in the low bits.
  constexpr float kRound = 12582912.0f;
  const float shifted = x * 1.44269504f + kRound;
  uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  const float k = shifted - kRound;
  // r = x - k ln 2, with ln 2 in two parts. The first has so few bits that its product with k is
  // exact.
  const float r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
  float p = 1.392692661e-3f;
  p = p * r + 8.363773874e-3f;
  p = p * r + 4.166655011e-2f;
  p = p * r + 1.666657338e-1f;
  p = p * r + 0.5f;
  return {1.0f + (r + r * r * p), static_cast<int32_t>(bits - 0x4b400000u)};
}

DPIPE_VECTOR_INLINE float Exp(float x) {
  // Outside this range the result is 0 (below 2^-150) or infinite.
  const SplitExp parts = ExpParts(Clamp(x, -104.0f, 89.0f));
  // Two factors, because 2^n alone may not be a normal number.
  const int32_t half = parts.exponent >> 1;
  return parts.fraction * PowerOfTwo(half) * PowerOfTwo(parts.exponent - half);
}

// A cheaper Exp: constant at exp(-87.3) below -87.3, and infinite from 88.4 on.
DPIPE_VECTOR_INLINE float NormalExp(float x) {
  const SplitExp parts = ExpParts(Clamp(x, -87.3f, 89.0f));
  return parts.fraction * PowerOfTwo(parts.exponent);
}

DPIPE_VECTOR_INLINE float Sigmoid(float x) { return 1.0f / (1.0f + NormalExp(-x)); }

DPIPE_VECTOR_INLINE float Erf(float x) {
  const float a = Abs(x);
  // |x| < 0.9: x (1 + p(x^2)).
  const float s = a * a;
  float p = -6.102687037e-4f;
  p = p * s + 5.014484151e-3f;
  p = p * s + -2.678071913e-2f;
  p = p * s + 1.128219409e-1f;
  p = p * s + -3.761252880e-1f;
  p = p * s + 1.283791547e-1f;
  const float small = a + a * p;
  // Otherwise 1 - exp(log erfc(x)); erfc(4) is below half an ulp of 1.
  const float t = a > 4.0f ? 4.0f : a;
  float q = 1.643063655e-6f;
  q = q * t + -4.616385862e-5f;
  q = q * t + 5.975857703e-4f;
  q = q * t + -4.762625833e-3f;
  q = q * t + 2.642763716e-2f;
  q = q * t + -1.100871665e-1f;
  q = q * t + -6.318239181e-1f;
  q = q * t + -1.130231055e+0f;
  q = q * t + 3.185396643e-4f;
  const float large = 1.0f - NormalExp(q);
  return __builtin_copysignf(a < 0.9f ? small : large, x);
}

DPIPE_VECTOR_INLINE float Tanh(float x) {
  const float a = Abs(x);
  // |x| < 0.625: x (1 + x^2 p(x^2)).
  const float s = a * a;
  float p = -6.096714163e-3f;
  p = p * s + 2.099717900e-2f;
  p = p * s + -5.385090958e-2f;
  p = p * s + 1.333276974e-1f;
  p = p * s + -3.333332894e-1f;
  const float small = a + a * (s * p);
  const float large = 1.0f - 2.0f / (NormalExp(2.0f * a) + 1.0f);
  return __builtin_copysignf(a < 0.625f ? small : large, x);
}

// The standard normal distribution function and its density.
DPIPE_VECTOR_INLINE float NormalCdf(float x) { return 0.5f + 0.5f * Erf(x * 0.70710678f); }
DPIPE_VECTOR_INLINE float NormalPdf(float x) { return 0.39894228f * Exp(-0.5f * x * x); }

// The functions that curves.h needs, for CPUs.
struct VectorMath {
  static DPIPE_VECTOR_INLINE float Sigmoid(float x) { return ops::Sigmoid(x); }
  static DPIPE_VECTOR_INLINE float Tanh(float x) { return ops::Tanh(x); }
  static DPIPE_VECTOR_INLINE float NormalCdf(float x) { return ops::NormalCdf(x); }
  static DPIPE_VECTOR_INLINE float NormalPdf(float x) { return ops::NormalPdf(x); }
};

DPIPE_VECTOR_INLINE float Silu(float x) { return SiluCurve<VectorMath>::Value(x); }
DPIPE_VECTOR_INLINE float SiluGrad(float x) { return SiluCurve<VectorMath>::Derivative(x); }
DPIPE_VECTOR_INLINE float Gelu(float x) { return GeluCurve<VectorMath>::Value(x); }
DPIPE_VECTOR_INLINE float GeluGrad(float x) { return GeluCurve<VectorMath>::Derivative(x); }

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_SUPPORT_VECTOR_MATH_H_

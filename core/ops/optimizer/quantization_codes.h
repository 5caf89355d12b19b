// The 8-bit codes of numbers and rounding to them, for both CPUs and CUDA.
//                                                       [Dettmers et al., arXiv 2110.02861]
// A code represents a quotient in [-1, 1] or [0, 1]. Codes are dense for large quotients and reach
// down to small magnitudes. Decade k, [10^-(k+1), 10^-k], is divided evenly into 2^(6-k) parts
// (signed) or 2^(7-k) (unsigned), for k = 0 to 6, and a code represents the middle of a part. There
// are also codes for 0 and for the ends of the range.
//
// Unlike the paper's, signed codes are symmetric and include both 1 and -1. The largest of several
// numbers, divided by itself, is therefore kept exactly.
#ifndef DPIPE_CORE_OPS_OPTIMIZER_QUANTIZATION_CODES_H_
#define DPIPE_CORE_OPS_OPTIMIZER_QUANTIZATION_CODES_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__CUDACC__)
#define DPIPE_CODES_FUNCTION __host__ __device__ __forceinline__
#else
#define DPIPE_CODES_FUNCTION inline
#endif

namespace dpipe::ops {

// The 255 signed or 256 unsigned codes, increasing.
class QuantizationCodes {
 public:
  constexpr explicit QuantizationCodes(bool is_signed) : count_(is_signed ? 255 : 256) {
    double middles[254] = {};
    const int parts = is_signed ? 64 : 128;  // of the first decade
    const int num_middles = FillMiddles(parts, middles);
    // 63 + 32 + ... instead of 64: 1 replaces the highest one.
    if (is_signed) middles[num_middles - 1] = 1;
    zero_ = is_signed ? num_middles : 0;
    for (int i = 0; i < num_middles; ++i) {
      value_[zero_ + 1 + i] = static_cast<float>(middles[i]);
      if (is_signed) value_[zero_ - 1 - i] = static_cast<float>(-middles[i]);
    }
    if (!is_signed) value_[count_ - 1] = 1;
    for (int i = 0; i + 1 < count_; ++i) {
      bound_[i] = static_cast<float>((double{value_[i]} + double{value_[i + 1]}) / 2);
    }
    for (int i = count_ - 1; i < 256; ++i) bound_[i] = std::numeric_limits<float>::infinity();
    FillGuesses();
  }

  constexpr int count() const { return count_; }
  // The code of 0.
  DPIPE_CODES_FUNCTION constexpr int zero() const { return zero_; }
  DPIPE_CODES_FUNCTION constexpr float value(int code) const { return value_[code]; }

  // Returns the nearest code of a quotient within the range; ties go toward 0. For a number outside
  // the range, or a NaN, returns an arbitrary code.
  DPIPE_CODES_FUNCTION int Nearest(float quotient) const {
    const float magnitude = fabsf(quotient);
    const int guess = guess_[KeyOf(magnitude)];
    const int code = guess + (magnitude > bound_[guess] ? 1 : 0);
    return quotient < 0 ? 2 * zero_ - code : code;
  }

  // Tables of Nearest, for loops over many magnitudes at once. All magnitudes with one key share a
  // guess, which is right, or one too low if the magnitude is above the guess's bound.
  static DPIPE_CODES_FUNCTION int32_t KeyOf(float magnitude) {
    int32_t bits = 0;
    memcpy(&bits, &magnitude, sizeof(bits));
    const int32_t key = (bits - kMinBits) >> kDroppedBits;
    return key < 0 ? 0 : key < kKeys ? key : kKeys - 1;
  }
  const uint8_t* guesses() const { return guess_; }
  const float* bounds() const { return bound_; }
  const float* values() const { return value_; }

 private:
  static constexpr int kDecades = 7;
  // Guesses are looked up by the exponent and 7 bits of the mantissa, from 2^-24 to 1.
  static constexpr int32_t kMinBits = (127 - 24) << 23;
  static constexpr int kDroppedBits = 16;
  static constexpr int kKeys = 24 * 128 + 1;

  // Fills in the positive codes below 1, increasing: in each decade, the middles of its parts.
  static constexpr int FillMiddles(int parts_of_first_decade, double* middles) {
    double bottom[kDecades] = {}, width[kDecades] = {};
    int parts[kDecades] = {};
    double top = 1;
    for (int k = 0; k < kDecades; ++k) {
      parts[k] = k == 0 ? parts_of_first_decade : parts[k - 1] / 2;
      bottom[k] = top / 10;
      width[k] = (top - bottom[k]) / parts[k];
      top = bottom[k];
    }
    int count = 0;
    for (int k = kDecades - 1; k >= 0; --k) {
      for (int i = 0; i < parts[k]; ++i) middles[count++] = bottom[k] + width[k] * (i + 0.5);
    }
    return count;
  }

  constexpr void FillGuesses() {
    int code = zero_;
    for (int key = 0; key < kKeys; ++key) {
      // The minimum number with this key, from its bits: (1 + mantissa / 128) * 2^(exponent - 24).
      double least = 1 + static_cast<double>(key % 128) / 128;
      for (int exponent = key / 128; exponent < 24; ++exponent) least /= 2;
      while (least > double{bound_[code]}) ++code;
      guess_[key] = static_cast<uint8_t>(code);
    }
  }

  int count_;
  int zero_ = 0;
  float value_[256] = {};
  float bound_[256] = {};  // from zero() on: code i is right up to and including bound_[i]
  uint8_t guess_[kKeys] = {};
};

inline constexpr QuantizationCodes kSignedCodes(/*is_signed=*/true);
inline constexpr QuantizationCodes kUnsignedCodes(/*is_signed=*/false);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_OPTIMIZER_QUANTIZATION_CODES_H_

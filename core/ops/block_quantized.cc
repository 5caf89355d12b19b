#include "core/ops/block_quantized.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/check.h"

namespace dpipe::ops {
namespace {

constexpr int kDecades = 7;

// The positive codes below 1: of each decade the middles of its parts.
std::vector<double> Middles(int parts_of_first_decade) {
  std::vector<double> middles;
  int parts = parts_of_first_decade;
  double top = 1;
  for (int decade = 0; decade < kDecades; ++decade) {
    const double bottom = top / 10;
    const double width = (top - bottom) / parts;
    for (int i = 0; i < parts; ++i) middles.push_back(bottom + width * (i + 0.5));
    top = bottom;
    parts /= 2;
  }
  std::sort(middles.begin(), middles.end());
  return middles;
}

// 63 + 32 + ... instead of 64: 1 takes the place of the highest middle, so that 255 codes remain.
std::vector<float> MakeSignedCodes() {
  std::vector<double> middles = Middles(64);
  middles.back() = 1;
  std::vector<float> codes;
  for (auto it = middles.rbegin(); it != middles.rend(); ++it) codes.push_back(-*it);
  codes.push_back(0);
  for (double middle : middles) codes.push_back(static_cast<float>(middle));
  return codes;
}

std::vector<float> MakeUnsignedCodes() {
  std::vector<float> codes = {0};
  for (double middle : Middles(128)) codes.push_back(static_cast<float>(middle));
  codes.push_back(1);
  return codes;
}

// Rounds quotients to codes. Looks up the highest code that is right for no number beyond the first
// of those that share its upper 16 bits, and goes on from there: at most a step or two.
class Rounding {
 public:
  explicit Rounding(const std::vector<float>& codes) : codes_(codes) {
    for (size_t i = 0; i + 1 < codes.size(); ++i) {
      bounds_.push_back(static_cast<float>((double{codes[i]} + double{codes[i + 1]}) / 2));
    }
    first_.resize(1 << 16);
    for (uint32_t high = 0; high < first_.size(); ++high) {
      // The least number with these bits: that of the largest magnitude, if it is negative.
      const uint32_t bits = high << 16 | (high >> 15 ? 0xffff : 0);
      float least;
      std::memcpy(&least, &bits, sizeof(least));
      first_[high] = std::isnan(least) ? 0 : static_cast<uint8_t>(Search(least));
    }
  }

  uint8_t operator()(float quotient) const {
    uint32_t bits;
    std::memcpy(&bits, &quotient, sizeof(bits));
    size_t code = first_[bits >> 16];
    while (code < bounds_.size() && quotient > bounds_[code]) ++code;
    return static_cast<uint8_t>(code);
  }

 private:
  size_t Search(float quotient) const {
    return std::lower_bound(bounds_.begin(), bounds_.end(), quotient) - bounds_.begin();
  }

  const std::vector<float>& codes_;
  std::vector<float> bounds_;  // code i is right up to and with bounds_[i]
  std::vector<uint8_t> first_;
};

const Rounding& RoundingOf(BlockQuantized::Sign sign) {
  static const auto* const with_sign = new Rounding(SignedCodes());
  static const auto* const without = new Rounding(UnsignedCodes());
  return sign == BlockQuantized::Sign::kSigned ? *with_sign : *without;
}

}  // namespace

const std::vector<float>& SignedCodes() {
  static const auto* const codes = new std::vector<float>(MakeSignedCodes());
  return *codes;
}

const std::vector<float>& UnsignedCodes() {
  static const auto* const codes = new std::vector<float>(MakeUnsignedCodes());
  return *codes;
}

BlockQuantized::BlockQuantized(int64_t size, int block_size, Sign sign)
    : block_size_(block_size), sign_(sign) {
  DPIPE_CHECK_GE(block_size, 1);
  // The code of 0.
  codes_.assign(size, sign == Sign::kSigned ? SignedCodes().size() / 2 : 0);
  scales_.assign((size + block_size - 1) / block_size, 0.0f);
}

void BlockQuantized::Store(absl::Span<const float> values) {
  DPIPE_CHECK_EQ(static_cast<int64_t>(values.size()), size());
  const Rounding& rounding = RoundingOf(sign_);
  const bool is_unsigned = sign_ == Sign::kUnsigned;
  for (size_t block = 0; block < scales_.size(); ++block) {
    const int64_t begin = static_cast<int64_t>(block) * block_size_;
    const int64_t end = std::min(begin + block_size_, size());
    float largest = 0;
    for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(values[i]));
    scales_[block] = largest;
    const float divisor = largest > 0 ? largest : 1;
    for (int64_t i = begin; i < end; ++i) {
      const uint8_t code = rounding(values[i] / divisor);
      codes_[i] = is_unsigned && values[i] > 0 ? std::max<uint8_t>(code, 1) : code;
    }
  }
}

void BlockQuantized::Load(absl::Span<float> values) const {
  DPIPE_CHECK_EQ(static_cast<int64_t>(values.size()), size());
  const float* codes = (sign_ == Sign::kSigned ? SignedCodes() : UnsignedCodes()).data();
  for (size_t block = 0; block < scales_.size(); ++block) {
    const int64_t begin = static_cast<int64_t>(block) * block_size_;
    const int64_t end = std::min(begin + block_size_, size());
    for (int64_t i = begin; i < end; ++i) values[i] = codes[codes_[i]] * scales_[block];
  }
}

}  // namespace dpipe::ops

// Optimizer moments in 8 bits: dynamic block-wise quantisation (Dettmers et al., "8-bit Optimizers
// via Block-wise Quantization", arXiv 2110.02861).
//
// Numbers are divided by the largest magnitude of their block, and the quotient q in [-1, 1] or
// [0, 1] is rounded to one of 255 or 256 codes. Codes are dense where q is large and reach down to
// small magnitudes: decade k, [10^-(k+1), 10^-k], is divided evenly by 2^(6-k) of them (signed) or
// 2^(7-k) (unsigned), for k = 0 to 6, and stands for the middles of its parts; besides, 0 and the
// ends of the range.
//
// Unlike the paper's, signed codes are symmetric and have both 1 and -1, so that a block's largest
// magnitude is kept exactly and quantising what was dequantised changes nothing.
#ifndef DPIPE_CORE_OPS_BLOCK_QUANTIZED_H_
#define DPIPE_CORE_OPS_BLOCK_QUANTIZED_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace dpipe::ops {

// The quotients that codes stand for, increasing.
const std::vector<float>& SignedCodes();
const std::vector<float>& UnsignedCodes();

// n numbers in n bytes and 4 bytes a block.
class BlockQuantized {
 public:
  enum class Sign { kSigned, kUnsigned };

  // All zero. Blocks of `block_size` >= 1 numbers, the last one perhaps shorter.
  BlockQuantized(int64_t size, int block_size, Sign sign);

  int64_t size() const { return static_cast<int64_t>(codes_.size()); }
  int64_t size_bytes() const { return size() + static_cast<int64_t>(scales_.size()) * 4; }

  // `values` has size() numbers, finite, and none negative where unsigned. Each is rounded to the
  // nearest code (of two as near, the smaller), but a number above 0 is never rounded to 0 where
  // unsigned: it is what Adam divides by.
  void Store(absl::Span<const float> values);
  void Load(absl::Span<float> values) const;

 private:
  const int block_size_;
  const Sign sign_;
  std::vector<uint8_t> codes_;
  std::vector<float> scales_;  // the largest magnitude of each block
};

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_BLOCK_QUANTIZED_H_

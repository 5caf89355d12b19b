// Weights that are not trained, in 8 bits: one byte per number and a scale per block.
//
// A block is 64 neighbouring numbers; its scale is s = max |x| / 127, rounded up to 16 significant
// bits. A number x is kept as the integer code nearest to x / s, from -127 to 127, and read as code
// * s. The error is at most s / 2. Since code * s fits in fp32's 24 bits, it is exact, and encoding
// decoded numbers gives the same codes and scales: a model may be stored and loaded in any
// precision in between. Numbers must be finite and below 1e38.
#ifndef DPIPE_CORE_OPS_PRODUCT_BLOCK_CODES_H_
#define DPIPE_CORE_OPS_PRODUCT_BLOCK_CODES_H_

#include <cstdint>

#include "core/tensor/tensor.h"

namespace dpipe::ops {

inline constexpr int64_t kCodesPerBlock = 64;

inline int64_t CodeBlocks(int64_t n) { return (n + kCodesPerBlock - 1) / kCodesPerBlock; }

// Numbers in blocks; the last block may be shorter.
struct BlockCodes {
  BlockCodes() = default;
  // Allocates n uninitialised numbers.
  BlockCodes(const std::shared_ptr<Device>& device, int64_t n);

  static int64_t SizeBytes(int64_t n) { return (n + 3) / 4 * 4 + 4 * CodeBlocks(n); }

  // Encodes fp32 numbers in host memory. The codes may belong to any device; the host does the
  // work, because it is done once, when a model is loaded.
  void Encode(const Tensor& values);
  // Writes the numbers to `values`, fp32 or bf16 of the same device; bf16 is rounded to nearest
  // even. On a GPU the work is only enqueued.
  void DecodeTo(Tensor* values) const;

  Tensor codes;   // four codes per int32 element
  Tensor scales;  // fp32, one per block
};

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_PRODUCT_BLOCK_CODES_H_

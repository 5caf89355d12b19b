// Optimizer moments in 8 bits: dynamic block-wise quantisation (Dettmers et al., "8-bit Optimizers
// via Block-wise Quantization", arXiv 2110.02861).
//
// Numbers are divided by the largest magnitude of their block, and the quotient is rounded to one
// of 255 signed or 256 unsigned codes (quantization_codes.h). A block's largest magnitude is kept
// exactly, and quantising what was dequantised changes nothing.
#ifndef DPIPE_CORE_OPS_BLOCK_QUANTIZED_H_
#define DPIPE_CORE_OPS_BLOCK_QUANTIZED_H_

#include <cstdint>
#include <memory>

#include "core/ops/quantization_codes.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Of the numbers of one block, in host memory: their codes, and the return value is their scale.
// They are finite, and none is negative where codes are unsigned; a number above 0 is then never
// rounded to 0: it is what Adam divides by.
float QuantizeBlock(const QuantizationCodes& codes, const float* values, int64_t n, uint8_t* to);
void DequantizeBlock(const QuantizationCodes& codes, const uint8_t* from, float scale, int64_t n,
                     float* values);

// n numbers in n bytes and 4 bytes a block, on a device.
class BlockQuantized {
 public:
  enum class Sign { kSigned, kUnsigned };

  // All zero. Blocks of `block_size` >= 1 numbers, the last one perhaps shorter.
  BlockQuantized(const std::shared_ptr<Device>& device, int64_t size, int block_size, Sign sign);

  int64_t size() const { return size_; }
  int block_size() const { return block_size_; }
  int64_t num_blocks() const { return scales_.num_elements(); }
  int64_t size_bytes() const { return size_ + scales_.size_bytes(); }
  const QuantizationCodes& rounding() const {
    return sign_ == Sign::kSigned ? kSignedCodes : kUnsignedCodes;
  }

  // fp32, `size()` elements, on the same device; what QuantizeBlock says of them. The host
  // quantises, on all devices.
  void Store(const Tensor& values);
  Tensor Load(const Shape& shape) const { return OnDevice(LoadToHost(shape, false)); }
  Tensor LoadSquares(const Shape& shape) const { return OnDevice(LoadToHost(shape, true)); }
  // Where host code can read it: on the same device only where that is so.
  Tensor LoadToHost(const Shape& shape) const { return LoadToHost(shape, /*squared=*/false); }

  // Where ops find them: a byte a number, and the largest magnitude of each block.
  uint8_t* codes() const { return static_cast<uint8_t*>(codes_.raw_data()); }
  float* scales() const { return scales_.data<float>(); }

 private:
  const std::shared_ptr<Device>& device() const { return codes_.device(); }
  Tensor LoadToHost(const Shape& shape, bool squared) const;
  Tensor OnDevice(const Tensor& t) const { return t.device() == device() ? t : t.CopyTo(device()); }

  const int64_t size_;
  const int block_size_;
  const Sign sign_;
  Tensor codes_;   // four codes an element of int32
  Tensor scales_;  // fp32, one a block
};

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_BLOCK_QUANTIZED_H_

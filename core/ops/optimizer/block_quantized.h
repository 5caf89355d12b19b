// Optimizer moments in 8 bits: dynamic block-wise quantization (Dettmers et al., "8-bit Optimizers
// via Block-wise Quantization", arXiv 2110.02861).
//
// Numbers are divided by the maximum magnitude of their block. The quotient is rounded to one of
// 255 signed or 256 unsigned codes (quantization_codes.h). A block's maximum magnitude is kept
// exactly, and quantizing dequantized numbers changes nothing.
#ifndef DPIPE_CORE_OPS_OPTIMIZER_BLOCK_QUANTIZED_H_
#define DPIPE_CORE_OPS_OPTIMIZER_BLOCK_QUANTIZED_H_

#include <cstdint>
#include <memory>

#include "core/ops/optimizer/quantization_codes.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Writes the codes of one block of numbers, in host memory, and returns their scale. The numbers
// must be finite, and not negative if the codes are unsigned. Unsigned codes never round a number
// above 0 to 0, because Adam divides by it.
float QuantizeBlock(const QuantizationCodes& codes, const float* values, int64_t n, uint8_t* to);
void DequantizeBlock(const QuantizationCodes& codes, const uint8_t* from, float scale, int64_t n,
                     float* values);

// n numbers on a device, in n bytes plus 4 bytes per block.
class BlockQuantized {
 public:
  enum class Sign { kSigned, kUnsigned };

  // Creates `size` zeros in blocks of `block_size` >= 1 numbers; the last block may be shorter.
  BlockQuantized(const std::shared_ptr<Device>& device, int64_t size, int block_size, Sign sign);

  int64_t size() const { return size_; }
  int block_size() const { return block_size_; }
  int64_t num_blocks() const { return scales_.num_elements(); }
  int64_t size_bytes() const { return size_ + scales_.size_bytes(); }
  const QuantizationCodes& rounding() const {
    return sign_ == Sign::kSigned ? kSignedCodes : kUnsignedCodes;
  }

  // Quantizes `size()` fp32 elements on the same device, subject to QuantizeBlock's conditions. The
  // host does the work for all devices.
  void Store(const Tensor& values);
  Tensor Load(const Shape& shape) const { return OnDevice(LoadToHost(shape, false)); }
  Tensor LoadSquares(const Shape& shape) const { return OnDevice(LoadToHost(shape, true)); }
  // Returns the numbers in host-readable memory, which is the same device only if its memory is.
  Tensor LoadToHost(const Shape& shape) const { return LoadToHost(shape, /*squared=*/false); }

  // For ops: one byte per number, and the maximum magnitude of each block.
  uint8_t* codes() const { return static_cast<uint8_t*>(codes_.raw_data()); }
  float* scales() const { return scales_.data<float>(); }

 private:
  const std::shared_ptr<Device>& device() const { return codes_.device(); }
  Tensor LoadToHost(const Shape& shape, bool squared) const;
  Tensor OnDevice(const Tensor& t) const { return t.device() == device() ? t : t.CopyTo(device()); }

  const int64_t size_;
  const int block_size_;
  const Sign sign_;
  Tensor codes_;   // four codes per int32 element
  Tensor scales_;  // fp32, one per block
};

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_OPTIMIZER_BLOCK_QUANTIZED_H_

#include "core/ops/optimizer/block_quantized.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/check.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops {
namespace {

// Returns the tensor itself if the host can write to it, else a new host tensor to copy from.
Tensor Staging(const Tensor& t) {
  if (t.device()->has_host_memory()) return t;
  return Tensor::Empty(Device::Cpu(), t.shape(), t.dtype());
}

// Numbers that are rounded together.
constexpr int64_t kRun = 256;

DPIPE_VECTOR_CLONES float LargestMagnitude(const float* values, int64_t n) {
  // For numbers that are not NaN, the bits of a magnitude grow with it.
  int32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    int32_t bits;
    std::memcpy(&bits, values + i, sizeof(bits));
    bits &= 0x7fffffff;
    largest = bits > largest ? bits : largest;
  }
  float magnitude;
  std::memcpy(&magnitude, &largest, sizeof(magnitude));
  return magnitude;
}

DPIPE_VECTOR_CLONES void KeysRun(const float* __restrict values, float divisor, int64_t n,
                                 float* __restrict magnitudes, int32_t* __restrict keys) {
  for (int64_t i = 0; i < n; ++i) {
    magnitudes[i] = __builtin_fabsf(values[i] / divisor);
    keys[i] = QuantizationCodes::KeyOf(magnitudes[i]);
  }
}

// `codes` holds guesses on entry and codes on return.
DPIPE_VECTOR_CLONES void CodesRun(const float* __restrict values, const float* __restrict bounds,
                                  int zero, const float* __restrict magnitudes, int64_t n,
                                  int32_t* __restrict codes, uint8_t* __restrict to) {
  for (int64_t i = 0; i < n; ++i) {
    const int32_t code = codes[i] + (magnitudes[i] > bounds[codes[i]] ? 1 : 0);
    const int32_t with_sign = values[i] < 0 ? 2 * zero - code : code;
    to[i] = static_cast<uint8_t>(zero == 0 && values[i] > 0 && code == 0 ? 1 : with_sign);
  }
}

DPIPE_VECTOR_CLONES void ValuesRun(const float* __restrict values, float scale,
                                   const uint8_t* __restrict from, int64_t n,
                                   float* __restrict to) {
  for (int64_t i = 0; i < n; ++i) to[i] = values[from[i]] * scale;
}

}  // namespace

float QuantizeBlock(const QuantizationCodes& codes, const float* values, int64_t n, uint8_t* to) {
  const float largest = LargestMagnitude(values, n);
  const float divisor = largest > 0 ? largest : 1;
  float magnitudes[kRun];
  int32_t found[kRun];
  for (int64_t begin = 0; begin < n; begin += kRun) {
    const int64_t count = std::min(kRun, n - begin);
    KeysRun(values + begin, divisor, count, magnitudes, found);
    for (int64_t i = 0; i < count; ++i) found[i] = codes.guesses()[found[i]];
    CodesRun(values + begin, codes.bounds(), codes.zero(), magnitudes, count, found, to + begin);
  }
  return largest;
}

void DequantizeBlock(const QuantizationCodes& codes, const uint8_t* from, float scale, int64_t n,
                     float* values) {
  ValuesRun(codes.values(), scale, from, n, values);
}

BlockQuantized::BlockQuantized(const std::shared_ptr<Device>& device, int64_t size, int block_size,
                               Sign sign)
    : size_(size), block_size_(block_size), sign_(sign) {
  DPIPE_CHECK_GE(block_size, 1);
  scales_ = Tensor::Zeros(device, {(size + block_size - 1) / block_size}, DType::kF32);
  codes_ = Tensor::Empty(device, {(size + 3) / 4}, DType::kI32);
  const Tensor codes = Staging(codes_);
  std::memset(codes.raw_data(), rounding().zero(), codes.size_bytes());
  if (!device->has_host_memory()) codes_.CopyFrom(codes);
}

void BlockQuantized::Store(const Tensor& values) {
  DPIPE_CHECK_EQ(values.num_elements(), size_);
  const Tensor from = values.ToHost();
  const Tensor codes = Staging(codes_), scales = Staging(scales_);
  for (int64_t block = 0; block < num_blocks(); ++block) {
    const int64_t begin = block * block_size_;
    scales.data<float>()[block] = QuantizeBlock(rounding(), from.data<float>() + begin,
                                                std::min<int64_t>(block_size_, size_ - begin),
                                                static_cast<uint8_t*>(codes.raw_data()) + begin);
  }
  if (codes_.device()->has_host_memory()) return;
  codes_.CopyFrom(codes);
  scales_.CopyFrom(scales);
}

Tensor BlockQuantized::LoadToHost(const Shape& shape, bool squared) const {
  DPIPE_CHECK_EQ(shape.num_elements(), size_);
  const Tensor values =
      Tensor::Empty(device()->has_host_memory() ? device() : Device::Cpu(), shape, DType::kF32);
  const Tensor codes = codes_.ToHost(), scales = scales_.ToHost();
  for (int64_t block = 0; block < num_blocks(); ++block) {
    const int64_t begin = block * block_size_;
    DequantizeBlock(rounding(), static_cast<const uint8_t*>(codes.raw_data()) + begin,
                    scales.data<float>()[block], std::min<int64_t>(block_size_, size_ - begin),
                    values.data<float>() + begin);
  }
  if (squared) {
    for (float& x : values.span<float>()) x *= x;
  }
  return values;
}

}  // namespace dpipe::ops

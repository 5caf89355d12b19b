#include "core/ops/product/block_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/check.h"
#include "core/ops/cuda/kernels/elementwise.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"
#include "core/tensor/device_work.h"

namespace dpipe::ops {
namespace {

constexpr int kMaxCode = 127;

// Adding and subtracting 1.5 * 2^23 rounds a number below 2^22 to the nearest integer, ties to
// even.
constexpr float kRounding = 12582912.0f;

// Returns the scale of a block with this maximum magnitude.
float ScaleOf(float max) {
  const float scale = max / kMaxCode;
  uint32_t bits;
  std::memcpy(&bits, &scale, sizeof(bits));
  bits = (bits + 0xffu) & ~0xffu;
  float rounded;
  std::memcpy(&rounded, &bits, sizeof(rounded));
  return rounded;
}

DPIPE_VECTOR_CLONES void EncodeBlock(int64_t n, const float* values, float scale, int8_t* codes) {
  for (int64_t i = 0; i < n; ++i) {
    codes[i] =
        static_cast<int8_t>(static_cast<int32_t>((values[i] / scale + kRounding) - kRounding));
  }
}

// Runs that are decoded by one call: whole blocks.
constexpr int64_t kRun = 256 * kCodesPerBlock;

template <typename T>
DPIPE_VECTOR_INLINE void DecodeRun(int64_t n, const int8_t* codes, const float* scales, T* to) {
  for (int64_t begin = 0; begin < n; begin += kCodesPerBlock) {
    const float scale = scales[begin / kCodesPerBlock];
    const int64_t count = n - begin < kCodesPerBlock ? n - begin : kCodesPerBlock;
    const int8_t* __restrict from = codes + begin;
    T* __restrict target = to + begin;
    for (int64_t i = 0; i < count; ++i) Store(target + i, scale * static_cast<float>(from[i]));
  }
}

DPIPE_VECTOR_CLONES void Decode(int64_t n, const int8_t* codes, const float* scales, float* to) {
  DecodeRun(n, codes, scales, to);
}
DPIPE_VECTOR_CLONES void Decode(int64_t n, const int8_t* codes, const float* scales, Bf16* to) {
  DecodeRun(n, codes, scales, to);
}

template <typename T>
void DecodeInto(const BlockCodes& from, const Device& device, int64_t n, T* to) {
  const auto* codes = static_cast<const int8_t*>(from.codes.raw_data());
  const float* scales = from.scales.data<float>();
  if (device.kind() == DeviceKind::kCuda) {
    const WorkScope scope("decode a weight");
    CountWork(0, static_cast<double>(BlockCodes::SizeBytes(n) + n * int64_t{sizeof(T)}));
    cuda::DecodeBlocks(cuda::StreamOf(device), n, kCodesPerBlock, codes, scales, to);
    return;
  }
  ParallelFor(device, (n + kRun - 1) / kRun, [&](int64_t run) {
    const int64_t begin = run * kRun;
    Decode(std::min(kRun, n - begin), codes + begin, scales + begin / kCodesPerBlock, to + begin);
  });
}

}  // namespace

BlockCodes::BlockCodes(const std::shared_ptr<Device>& device, int64_t n)
    : codes(Tensor::Empty(device, {(n + 3) / 4}, DType::kI32)),
      scales(Tensor::Empty(device, {CodeBlocks(n)}, DType::kF32)) {}

void BlockCodes::Encode(const Tensor& values) {
  const int64_t n = values.num_elements();
  DPIPE_CHECK_EQ(scales.num_elements(), CodeBlocks(n));
  if (!codes.device()->has_host_memory()) {
    BlockCodes here(Device::Cpu(), n);
    here.Encode(values);
    codes.CopyFrom(here.codes);
    scales.CopyFrom(here.scales);
    return;
  }
  const float* const from = values.data<float>();
  auto* const to = static_cast<int8_t*>(codes.raw_data());
  std::fill(to + n, to + (n + 3) / 4 * 4, 0);
  ParallelFor(*codes.device(), CodeBlocks(n), [&](int64_t block) {
    const int64_t begin = block * kCodesPerBlock, count = std::min(kCodesPerBlock, n - begin);
    float max = 0;
    for (int64_t i = begin; i < begin + count; ++i) max = std::max(max, std::abs(from[i]));
    const float scale = scales.data<float>()[block] = ScaleOf(max);
    if (scale > 0) {
      EncodeBlock(count, from + begin, scale, to + begin);
    } else {
      std::fill_n(to + begin, count, 0);
    }
  });
}

void BlockCodes::DecodeTo(Tensor* values) const {
  const int64_t n = values->num_elements();
  DPIPE_CHECK_EQ(scales.num_elements(), CodeBlocks(n));
  const Device& device = *values->device();
  if (values->dtype() == DType::kF32) return DecodeInto(*this, device, n, values->data<float>());
  DecodeInto(*this, device, n, values->data<Bf16>());
}

}  // namespace dpipe::ops

#include "core/ops/product/block_codes_kernel.h"

#include "core/ops/cuda/kernels/pack.h"
#include "core/tensor/bf16.h"

namespace dpipe::ops::cuda {
namespace {

// Numbers per thread: one pack of bf16, or two of fp32.
constexpr int kSpan = kPack<Bf16>;

template <typename T>
struct Decode {
  int64_t n, block;
  const int8_t* codes;
  const float* scales;
  T* to;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    ForEachPack<Bf16>(n, [this](int64_t i, int count) {
      const float scale = scales[i / block];
      uint64_t bits = 0;
      if (count == kSpan) {
        bits = *reinterpret_cast<const uint64_t*>(codes + i);
      } else {
        for (int j = 0; j < count; ++j) {
          bits |= uint64_t{static_cast<uint8_t>(codes[i + j])} << (8 * j);
        }
      }
      float x[kSpan];
      DPIPE_UNROLL for (int j = 0; j < kSpan; ++j) {
        x[j] = scale * static_cast<float>(static_cast<int8_t>(bits >> (8 * j) & 0xff));
      }
      StoreSpan(to + i, count, x);
    });
  }
};

}  // namespace

template <typename T>
void DecodeBlocks(const Stream& stream, int64_t n, int64_t block, const int8_t* codes,
                  const float* scales, T* to) {
  DPIPE_CHECK_EQ(block % kSpan, 0);
  Launch(stream, BlocksFor(Packs<Bf16>(n)), Decode<T>{n, block, codes, scales, to});
}

template void DecodeBlocks(const Stream&, int64_t, int64_t, const int8_t*, const float*, float*);
template void DecodeBlocks(const Stream&, int64_t, int64_t, const int8_t*, const float*, Bf16*);

}  // namespace dpipe::ops::cuda

// Loads and stores of elements in kernels: in packs of 16 bytes if memory is aligned, else one by
// one, with the same arithmetic either way.
//
// Loops over a pack's elements have constant bounds, so that its arrays stay in registers.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_PACK_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_PACK_H_

#include <cstdint>
#include <cstring>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/tensor/bf16.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#endif

namespace dpipe::ops::cuda {

DPIPE_KERNEL_FUNCTION float FloatOf(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}
DPIPE_KERNEL_FUNCTION uint32_t BitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

DPIPE_KERNEL_FUNCTION float Load(const float* p) { return *p; }
DPIPE_KERNEL_FUNCTION float Load(const Bf16* p) { return FloatOf(uint32_t{p->bits} << 16); }

DPIPE_KERNEL_FUNCTION void Store(float* p, float value) { *p = value; }

// Rounds to nearest even; a NaN stays NaN.
#if defined(__CUDA_ARCH__)
__device__ __forceinline__ void Store(Bf16* p, float value) {
  p->bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
}
// The same for two numbers; the first is in the lower half.
__device__ __forceinline__ uint32_t TwoBf16(float first, float second) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(first, second);
  uint32_t bits;
  memcpy(&bits, &two, sizeof(bits));
  return bits;
}
#else
DPIPE_KERNEL_FUNCTION void Store(Bf16* p, float value) { *p = Bf16(value); }
DPIPE_KERNEL_FUNCTION uint32_t TwoBf16(float first, float second) {
  return Bf16(first).bits | uint32_t{Bf16(second).bits} << 16;
}
#endif

// 16 bytes, loaded or stored by one instruction.
struct alignas(16) Words {
  uint32_t w[4];
};
#if defined(__CUDA_ARCH__)
__device__ __forceinline__ Words LoadWords(const void* p) {
  const uint4 v = *static_cast<const uint4*>(p);
  return {{v.x, v.y, v.z, v.w}};
}
// A plain assignment is sometimes compiled to four stores.
__device__ __forceinline__ void StoreWords(void* p, const Words& words) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)),
               "r"(words.w[0]), "r"(words.w[1]), "r"(words.w[2]), "r"(words.w[3])
               : "memory");
}
#else
// A GPU would fail on unaligned memory.
DPIPE_KERNEL_FUNCTION Words LoadWords(const void* p) {
  DPIPE_CHECK_EQ(reinterpret_cast<uintptr_t>(p) % sizeof(Words), 0u);
  Words words;
  memcpy(&words, p, sizeof(words));
  return words;
}
DPIPE_KERNEL_FUNCTION void StoreWords(void* p, const Words& words) {
  DPIPE_CHECK_EQ(reinterpret_cast<uintptr_t>(p) % sizeof(Words), 0u);
  memcpy(p, &words, sizeof(words));
}
#endif

// Elements per pack.
template <typename T>
constexpr int kPack = 16 / sizeof(T);

// Returns the number of packs of n adjacent elements; the last one may be partial.
template <typename T>
DPIPE_KERNEL_FUNCTION constexpr int64_t Packs(int64_t n) {
  return (n + kPack<T> - 1) / kPack<T>;
}

// The elements of a pack, in fp32.
template <typename T>
struct Pack {
  float v[kPack<T>];
};

DPIPE_KERNEL_FUNCTION void Unpack(const Words& words, Pack<float>* pack) {
  DPIPE_UNROLL for (int i = 0; i < 4; ++i) pack->v[i] = FloatOf(words.w[i]);
}
DPIPE_KERNEL_FUNCTION void Unpack(const Words& words, Pack<Bf16>* pack) {
  DPIPE_UNROLL for (int i = 0; i < 4; ++i) {
    pack->v[2 * i] = FloatOf(words.w[i] << 16);
    pack->v[2 * i + 1] = FloatOf(words.w[i] & 0xffff0000u);
  }
}
DPIPE_KERNEL_FUNCTION Words WordsOf(const Pack<float>& pack) {
  Words words;
  DPIPE_UNROLL for (int i = 0; i < 4; ++i) words.w[i] = BitsOf(pack.v[i]);
  return words;
}
DPIPE_KERNEL_FUNCTION Words WordsOf(const Pack<Bf16>& pack) {
  Words words;
  DPIPE_UNROLL for (int i = 0; i < 4; ++i) {
    words.w[i] = TwoBf16(pack.v[2 * i], pack.v[2 * i + 1]);
  }
  return words;
}

DPIPE_KERNEL_FUNCTION bool IsAligned(const void* p) {
  return (reinterpret_cast<uintptr_t>(p) & 15u) == 0;
}

// Reads the first `count` <= kPack<T> elements at p; the others are 0.
template <typename T>
DPIPE_KERNEL_FUNCTION Pack<T> LoadPack(const T* p, int count) {
  Pack<T> pack;
  if (count == kPack<T> && IsAligned(p)) {
    Unpack(LoadWords(p), &pack);
  } else {
    DPIPE_UNROLL for (int i = 0; i < kPack<T>; ++i) pack.v[i] = i < count ? Load(p + i) : 0.0f;
  }
  return pack;
}

// Adds another pack elementwise.
template <typename T>
DPIPE_KERNEL_FUNCTION void AddTo(Pack<T>* pack, const Pack<T>& added) {
  DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) pack->v[j] += added.v[j];
}

// Writes the first `count` elements.
template <typename T>
DPIPE_KERNEL_FUNCTION void StorePack(T* p, int count, const Pack<T>& pack) {
  if (count == kPack<T> && IsAligned(p)) {
    StoreWords(p, WordsOf(pack));
  } else {
    DPIPE_UNROLL for (int i = 0; i < kPack<T>; ++i) {
      if (i < count) Store(p + i, pack.v[i]);
    }
  }
}

// Loads or stores the first `count` of kSize adjacent elements, several packs; the others are
// loaded as 0.
template <typename T, int kSize>
DPIPE_KERNEL_FUNCTION void LoadSpan(const T* p, int count, float (&v)[kSize]) {
  static_assert(kSize % kPack<T> == 0, "not whole packs");
  DPIPE_UNROLL for (int begin = 0; begin < kSize; begin += kPack<T>) {
    const int left = count - begin;
    const Pack<T> pack = LoadPack(p + begin, left < kPack<T> ? left : kPack<T>);
    DPIPE_UNROLL for (int i = 0; i < kPack<T>; ++i) v[begin + i] = pack.v[i];
  }
}
template <typename T, int kSize>
DPIPE_KERNEL_FUNCTION void StoreSpan(T* p, int count, const float (&v)[kSize]) {
  static_assert(kSize % kPack<T> == 0, "not whole packs");
  DPIPE_UNROLL for (int begin = 0; begin < kSize; begin += kPack<T>) {
    const int left = count - begin;
    Pack<T> pack;
    DPIPE_UNROLL for (int i = 0; i < kPack<T>; ++i) pack.v[i] = v[begin + i];
    StorePack(p + begin, left < kPack<T> ? left : kPack<T>, pack);
  }
}

// Returns the number of elements, of n in all, in the pack that begins at element `first`.
template <typename T>
DPIPE_KERNEL_FUNCTION int PackCount(int64_t n, int64_t first) {
  return n - first < kPack<T> ? static_cast<int>(n - first) : kPack<T>;
}

// For kernels over all elements, one pack per thread: calls `f(i, count)` for elements [i, i +
// count).
template <typename T, typename F>
DPIPE_KERNEL_FUNCTION void ForEachPack(int64_t n, const F& f) {
  const int64_t i = int64_t{ThreadOfAll()} * kPack<T>;
  if (i < n) f(i, PackCount<T>(n, i));
}

// The position of a thread's pack in a matrix with rows of `columns` elements. No pack extends
// beyond its row.
struct RowPlace {
  int64_t row, column;
  int count;  // 0: the thread has none
};
template <typename T>
DPIPE_KERNEL_FUNCTION RowPlace PackOfRow(int64_t rows, int64_t columns) {
  const uint32_t packs = static_cast<uint32_t>(Packs<T>(columns));
  const uint32_t row = ThreadOfAll() / packs;
  const int64_t column = int64_t{ThreadOfAll() % packs} * kPack<T>;
  return {row, column, row < rows ? PackCount<T>(columns, column) : 0};
}

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_PACK_H_

// Elements as kernels read and write them: in packs of 16 bytes where memory is so aligned, one by
// one where it is not, and with the same arithmetic either way.
#ifndef DPIPE_CORE_OPS_CUDA_PACK_H_
#define DPIPE_CORE_OPS_CUDA_PACK_H_

#include <cstdint>
#include <cstring>

#include "core/ops/cuda/kernel.h"
#include "core/tensor/bf16.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#endif

namespace dpipe::ops::cuda {

DPIPE_KERNEL_FUNCTION float Load(const float* p) { return *p; }
DPIPE_KERNEL_FUNCTION float Load(const Bf16* p) {
  const uint32_t bits = uint32_t{p->bits} << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

DPIPE_KERNEL_FUNCTION void Store(float* p, float value) { *p = value; }

// To nearest, halves to even; a NaN stays one.
#if defined(__CUDA_ARCH__)
__device__ __forceinline__ void Store(Bf16* p, float value) {
  p->bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
}
#else
DPIPE_KERNEL_FUNCTION void Store(Bf16* p, float value) { *p = Bf16(value); }
#endif

// Elements of a pack.
template <typename T>
constexpr int kPack = 16 / sizeof(T);

// Packs that n neighbouring elements take; the last one may be cut short.
template <typename T>
DPIPE_KERNEL_FUNCTION constexpr int64_t Packs(int64_t n) {
  return (n + kPack<T> - 1) / kPack<T>;
}

// Elements [0, count) of what a pack holds, in fp32.
template <typename T>
struct Pack {
  float v[kPack<T>];
};

template <typename T>
struct alignas(16) RawPack {
  T v[kPack<T>];
};

DPIPE_KERNEL_FUNCTION bool IsAligned(const void* p) {
  return (reinterpret_cast<uintptr_t>(p) & 15u) == 0;
}

// Reads the first `count` <= kPack<T> elements at p; the others are 0.
template <typename T>
DPIPE_KERNEL_FUNCTION Pack<T> LoadPack(const T* p, int count) {
  Pack<T> pack;
  if (count == kPack<T> && IsAligned(p)) {
    const RawPack<T> raw = *reinterpret_cast<const RawPack<T>*>(p);
    for (int i = 0; i < kPack<T>; ++i) pack.v[i] = Load(raw.v + i);
  } else {
    for (int i = 0; i < kPack<T>; ++i) pack.v[i] = i < count ? Load(p + i) : 0.0f;
  }
  return pack;
}

// Adds the first `count` elements at p to a pack.
template <typename T>
DPIPE_KERNEL_FUNCTION void AddPack(const T* p, int count, Pack<T>* pack) {
  const Pack<T> added = LoadPack(p, count);
  for (int j = 0; j < kPack<T>; ++j) pack->v[j] += added.v[j];
}

// Writes the first `count` elements.
template <typename T, int kSize>
DPIPE_KERNEL_FUNCTION void StorePack(T* p, int count, const float (&v)[kSize]) {
  static_assert(kSize == kPack<T>, "a pack of another type");
  if (count == kSize && IsAligned(p)) {
    RawPack<T> raw;
    for (int i = 0; i < kSize; ++i) Store(raw.v + i, v[i]);
    *reinterpret_cast<RawPack<T>*>(p) = raw;
  } else {
    for (int i = 0; i < kSize; ++i) {
      if (i < count) Store(p + i, v[i]);
    }
  }
}

// How many of a pack's elements there are, of n in all, from element `first` on.
template <typename T>
DPIPE_KERNEL_FUNCTION int PackCount(int64_t n, int64_t first) {
  return n - first < kPack<T> ? static_cast<int>(n - first) : kPack<T>;
}

// Kernels over all elements, a pack a thread: `f(i, count)` for the elements [i, i + count).
template <typename T, typename F>
DPIPE_KERNEL_FUNCTION void OnPack(int64_t n, const F& f) {
  const int64_t i = int64_t{ThreadOfAll()} * kPack<T>;
  if (i < n) f(i, PackCount<T>(n, i));
}

// The place of a thread's pack in a matrix of rows of `columns` elements, none of whose packs goes
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

#endif  // DPIPE_CORE_OPS_CUDA_PACK_H_

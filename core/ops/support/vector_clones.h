// Loops that use the machine's widest vectors, from one source and one binary.
//
// A function marked DPIPE_VECTOR_CLONES is compiled once per instruction set; the loader picks one.
// All variants give the same bits. Contraction into fused multiply-adds is off. Sums over adjacent
// elements have a fixed number of partial sums, independent of the vector width.
#ifndef DPIPE_CORE_OPS_SUPPORT_VECTOR_CLONES_H_
#define DPIPE_CORE_OPS_SUPPORT_VECTOR_CLONES_H_

#include "core/tensor/dtype.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DPIPE_VECTOR_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define DPIPE_VECTOR_CLONES
#endif

// Before a loop: no iteration writes what another one reads.
#ifdef __clang__
#define DPIPE_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define DPIPE_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

// Functions that a clone calls must be inlined into it; otherwise they run baseline instructions.
#define DPIPE_VECTOR_INLINE inline __attribute__((always_inline))

namespace dpipe::ops {

DPIPE_VECTOR_INLINE float Load(const float* p) { return *p; }
DPIPE_VECTOR_INLINE float Load(const Bf16* p) {
  const uint32_t u = uint32_t{p->bits} << 16;
  float value;
  std::memcpy(&value, &u, sizeof(value));
  return value;
}

DPIPE_VECTOR_INLINE void Store(float* p, float value) { *p = value; }
// Rounds like Bf16's constructor. A NaN first loses its low half, which rounding then leaves
// unchanged. Only the last shift narrows, which vectorizes best.
DPIPE_VECTOR_INLINE void Store(Bf16* p, float value) {
  uint32_t u;
  std::memcpy(&u, &value, sizeof(u));
  u = value != value ? (u | 0x400000u) & 0xffff0000u : u;
  p->bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_SUPPORT_VECTOR_CLONES_H_

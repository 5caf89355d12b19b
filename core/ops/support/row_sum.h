// Sums over adjacent elements.
#ifndef DPIPE_CORE_OPS_SUPPORT_ROW_SUM_H_
#define DPIPE_CORE_OPS_SUPPORT_ROW_SUM_H_

#include <cstdint>

#include "core/ops/support/vector_clones.h"

namespace dpipe::ops {

// Returns the pairwise sum of 2 * kHalf values and overwrites them. Widths are constants, so that
// the values stay in registers.
template <int kHalf, typename T>
DPIPE_VECTOR_INLINE T FoldPairs(T* values) {
  for (int j = 0; j < kHalf; ++j) values[j] += values[j + kHalf];
  if constexpr (kHalf == 1) {
    return values[0];
  } else {
    return FoldPairs<kHalf / 2>(values);
  }
}

// Returns the sum of term(i), i in [0, n), in fp32: 32 partial sums, each over every 32nd element,
// which are then added pairwise. Their number is fixed, so that the bits do not depend on the
// machine.
template <typename Term>
DPIPE_VECTOR_INLINE float RowSum(int64_t n, const Term& term) {
  constexpr int kLanes = 32;
  float partial[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) partial[j] += term(i + j);
  }
  for (int j = 0; i + j < n; ++j) partial[j] += term(i + j);
  return FoldPairs<kLanes / 2>(partial);
}

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_SUPPORT_ROW_SUM_H_

// Sums over the positions of channels-last data, one per channel.
#ifndef DPIPE_CORE_OPS_SUPPORT_CHANNEL_SUMS_H_
#define DPIPE_CORE_OPS_SUPPORT_CHANNEL_SUMS_H_

#include <algorithm>
#include <cstdint>

#include "core/ops/support/vector_clones.h"

namespace dpipe::ops {

// Sums columns [first, first + kWidth) of `rows` rows that are `stride` elements apart. Adds to
// sums[k][c] the values that terms(element index, c, out) writes to out[k], k < kTerms. Partial
// sums stay in registers.
template <int kWidth, int kTerms, typename Terms>
DPIPE_VECTOR_INLINE void SumColumns(int64_t rows, int64_t stride, int64_t first, const Terms& terms,
                                    double* const* sums) {
  float partial[kTerms][kWidth] = {};
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < kWidth; ++j) {
      float out[kTerms];
      terms(r * stride + first + j, first + j, out);
      for (int k = 0; k < kTerms; ++k) partial[k][j] += out[k];
    }
  }
  for (int k = 0; k < kTerms; ++k) {
    for (int64_t j = 0; j < kWidth; ++j) sums[k][first + j] += partial[k][j];
  }
}

// sums[k][c] += sum over positions p of term k at element p * channels + c, where terms(element
// index, c, out) writes all kTerms of them to out. Sums runs of 128 positions in fp32 and adds the
// runs in double. The error is at worst near 128 * 2^-24 of the sum of magnitudes.
template <int kTerms, typename Terms>
DPIPE_VECTOR_INLINE void SumOverPositions(int64_t positions, int64_t channels, const Terms& terms,
                                          double* const* sums) {
  constexpr int64_t kRun = 128;
  for (int64_t p = 0; p < positions; p += kRun) {
    const int64_t rows = std::min(kRun, positions - p);
    const auto shifted = [&](int64_t i, int64_t c, float* out) __attribute__((always_inline)) {
      terms(p * channels + i, c, out);
    };
    int64_t c = 0;
    for (; c + 32 <= channels; c += 32) SumColumns<32, kTerms>(rows, channels, c, shifted, sums);
    for (; c + 8 <= channels; c += 8) SumColumns<8, kTerms>(rows, channels, c, shifted, sums);
    for (; c < channels; ++c) SumColumns<1, kTerms>(rows, channels, c, shifted, sums);
  }
}

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_SUPPORT_CHANNEL_SUMS_H_

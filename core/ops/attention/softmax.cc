#include "core/ops/attention/softmax.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/ops/support/vector_clones.h"

namespace dpipe::ops {
namespace {

// Sixteen partial results per row give reductions one order for all vector widths. A vector type,
// because gcc keeps an array of partial results in memory.
constexpr int64_t kLanes = 16;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

DPIPE_VECTOR_INLINE void LoadLanes(const float* x, Lanes* lanes) {
  std::memcpy(lanes, x, sizeof(*lanes));
}

// Lane l of `to` is lane l ^ kDistance of `from`: four steps of halving distances reduce all lanes.
template <int kDistance>
DPIPE_VECTOR_INLINE void Exchange(const Lanes& from, Lanes* to) {
  constexpr int d = kDistance;
  *to = __builtin_shufflevector(from, from, 0 ^ d, 1 ^ d, 2 ^ d, 3 ^ d, 4 ^ d, 5 ^ d, 6 ^ d, 7 ^ d,
                                8 ^ d, 9 ^ d, 10 ^ d, 11 ^ d, 12 ^ d, 13 ^ d, 14 ^ d, 15 ^ d);
}

template <int kDistance>
DPIPE_VECTOR_INLINE void AddExchanged(Lanes* lanes) {
  Lanes other;
  Exchange<kDistance>(*lanes, &other);
  *lanes += other;
}

template <int kDistance>
DPIPE_VECTOR_INLINE void MaxExchanged(Lanes* lanes) {
  Lanes other;
  Exchange<kDistance>(*lanes, &other);
  *lanes = *lanes > other ? *lanes : other;
}

DPIPE_VECTOR_INLINE float AddLanes(Lanes* lanes) {
  AddExchanged<8>(lanes);
  AddExchanged<4>(lanes);
  AddExchanged<2>(lanes);
  AddExchanged<1>(lanes);
  return (*lanes)[0];
}

DPIPE_VECTOR_INLINE float MaxOfLanes(Lanes* lanes) {
  MaxExchanged<8>(lanes);
  MaxExchanged<4>(lanes);
  MaxExchanged<2>(lanes);
  MaxExchanged<1>(lanes);
  return (*lanes)[0];
}

DPIPE_VECTOR_INLINE float RowMax(const float* x, int64_t n) {
  float largest = x[0];
  int64_t i = 0;
  if (n >= kLanes) {
    Lanes lanes, next;
    LoadLanes(x, &lanes);
    for (i = kLanes; i + kLanes <= n; i += kLanes) {
      LoadLanes(x + i, &next);
      lanes = lanes > next ? lanes : next;
    }
    largest = MaxOfLanes(&lanes);
  }
  for (; i < n; ++i) largest = largest > x[i] ? largest : x[i];
  return largest;
}

DPIPE_VECTOR_INLINE float RowSum(const float* x, int64_t n) {
  Lanes lanes = {}, next;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    LoadLanes(x + i, &next);
    lanes += next;
  }
  float sum = AddLanes(&lanes);
  for (; i < n; ++i) sum += x[i];
  return sum;
}

DPIPE_VECTOR_INLINE float RowDot(const float* a, const float* b, int64_t n) {
  Lanes lanes = {}, next_a, next_b;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    LoadLanes(a + i, &next_a);
    LoadLanes(b + i, &next_b);
    lanes += next_a * next_b;
  }
  float sum = AddLanes(&lanes);
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Returns exp(x) within 2 ulp for x up to a few units above 0, as differences from a maximum are.
// Below -87 it is constant at 1.6e-38, which vanishes in a sum with the maximum's exp(0) = 1. Half
// the work of vector_math.h's Exp, which covers all floats.
DPIPE_VECTOR_INLINE float ExpOfDifference(float x) {
  x = x < -87.0f ? -87.0f : x;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: leaves the rounded integer in the low bits
  const float shifted = x * 1.44269504f + kRound;
  uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  const float k = shifted - kRound;
  // ln 2 in two parts; the first is short enough for an exact product with k.
  const float r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
  float p = 1.392692661e-3f;
  p = p * r + 8.363773874e-3f;
  p = p * r + 4.166655011e-2f;
  p = p * r + 1.666657338e-1f;
  p = p * r + 0.5f;
  const float e = 1.0f + (r + r * r * p);
  const uint32_t power_bits = (bits << 23) + 0x3f800000u;  // 2^k
  float power;
  std::memcpy(&power, &power_bits, sizeof(power));
  return e * power;
}

// x = scale * x + bias.
DPIPE_VECTOR_INLINE void AddBias(float* __restrict x, int64_t n, float scale,
                                 const float* __restrict bias) {
  for (int64_t i = 0; i < n; ++i) x[i] = scale * x[i] + bias[i];
}

// x = exp(scale * x - shift). A separate loop, because it does not vectorize together with the sum.
DPIPE_VECTOR_INLINE void ExpRow(float* x, int64_t n, float scale, float shift) {
  for (int64_t i = 0; i < n; ++i) x[i] = ExpOfDifference(x[i] * scale - shift);
}

DPIPE_VECTOR_INLINE int64_t Visible(const SoftmaxRows& rows, int64_t r) {
  return rows.causal ? std::min(rows.columns, rows.first_row + r + 1) : rows.columns;
}

}  // namespace

DPIPE_VECTOR_CLONES void Softmax(const SoftmaxRows& rows, float* scores, float* log_sums) {
  for (int64_t r = 0; r < rows.rows; ++r) {
    float* const x = scores + r * rows.columns;
    const int64_t n = Visible(rows, r);
    const bool biased = rows.relative_bias != nullptr;
    if (biased) AddBias(x, n, rows.scale, rows.relative_bias - r);
    const float scale = biased ? 1.0f : rows.scale;
    const float largest = RowMax(x, n) * scale;
    ExpRow(x, n, scale, largest);
    const float sum = RowSum(x, n);
    const float inverse = 1.0f / sum;
    for (int64_t i = 0; i < n; ++i) x[i] *= inverse;
    for (int64_t i = n; i < rows.columns; ++i) x[i] = 0;
    if (log_sums != nullptr) log_sums[r] = largest + std::log(sum);
  }
}

DPIPE_VECTOR_CLONES void SoftmaxFromLogSums(const SoftmaxRows& rows, const float* log_sums,
                                            float* scores) {
  for (int64_t r = 0; r < rows.rows; ++r) {
    float* const x = scores + r * rows.columns;
    const int64_t n = Visible(rows, r);
    const bool biased = rows.relative_bias != nullptr;
    if (biased) AddBias(x, n, rows.scale, rows.relative_bias - r);
    ExpRow(x, n, biased ? 1.0f : rows.scale, log_sums[r]);
    for (int64_t i = n; i < rows.columns; ++i) x[i] = 0;
  }
}

DPIPE_VECTOR_CLONES void SoftmaxGrad(const SoftmaxRows& rows, const float* probabilities,
                                     float* gradients) {
  for (int64_t r = 0; r < rows.rows; ++r) {
    const float* __restrict const p = probabilities + r * rows.columns;
    float* __restrict const g = gradients + r * rows.columns;
    const float mean = RowDot(p, g, rows.columns);
    const float scale = rows.scale;
    for (int64_t i = 0; i < rows.columns; ++i) g[i] = scale * (p[i] * (g[i] - mean));
  }
}

DPIPE_VECTOR_CLONES void AddRelativeBiasGrad(const SoftmaxRows& rows, const float* gradients,
                                             float* dbias) {
  const float inverse = 1.0f / rows.scale;
  for (int64_t r = 0; r < rows.rows; ++r) {
    const float* __restrict const g = gradients + r * rows.columns;
    float* __restrict const sums = dbias - r;
    for (int64_t i = 0; i < rows.columns; ++i) sums[i] += inverse * g[i];
  }
}

}  // namespace dpipe::ops

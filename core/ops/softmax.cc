#include "core/ops/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops/vector_clones.h"
#include "core/ops/vector_math.h"

namespace dpipe::ops {
namespace {

// Partial results a row, so that reductions have an order that vectors can follow.
constexpr int64_t kLanes = 16;

DPIPE_VECTOR_INLINE float RowMax(const float* x, int64_t n) {
  float lanes[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) lanes[l] = -std::numeric_limits<float>::infinity();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = lanes[l] > x[i + l] ? lanes[l] : x[i + l];
  }
  float largest = lanes[0];
  for (int64_t l = 1; l < kLanes; ++l) largest = largest > lanes[l] ? largest : lanes[l];
  for (; i < n; ++i) largest = largest > x[i] ? largest : x[i];
  return largest;
}

DPIPE_VECTOR_INLINE float AddLanes(const float* lanes) {
  float halves[kLanes / 2];
  for (int64_t l = 0; l < kLanes / 2; ++l) halves[l] = lanes[l] + lanes[l + kLanes / 2];
  float sum = 0;
  for (int64_t l = 0; l < kLanes / 2; ++l) sum += halves[l];
  return sum;
}

// x = exp(scale * x - shift); returns the sum.
DPIPE_VECTOR_INLINE float ExpRow(float* x, int64_t n, float scale, float shift) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      x[i + l] = Exp(x[i + l] * scale - shift);
      lanes[l] += x[i + l];
    }
  }
  float sum = AddLanes(lanes);
  for (; i < n; ++i) sum += x[i] = Exp(x[i] * scale - shift);
  return sum;
}

DPIPE_VECTOR_INLINE float RowDot(const float* a, const float* b, int64_t n) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
  }
  float sum = AddLanes(lanes);
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

DPIPE_VECTOR_INLINE int64_t Visible(const SoftmaxRows& rows, int64_t r) {
  return rows.causal ? std::min(rows.columns, rows.first_row + r + 1) : rows.columns;
}

}  // namespace

DPIPE_VECTOR_CLONES void Softmax(const SoftmaxRows& rows, float* scores, float* log_sums) {
  for (int64_t r = 0; r < rows.rows; ++r) {
    float* const x = scores + r * rows.columns;
    const int64_t n = Visible(rows, r);
    const float largest = RowMax(x, n) * rows.scale;
    const float sum = ExpRow(x, n, rows.scale, largest);
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
    const float scale = rows.scale, log_sum = log_sums[r];
    for (int64_t i = 0; i < n; ++i) x[i] = Exp(x[i] * scale - log_sum);
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

}  // namespace dpipe::ops

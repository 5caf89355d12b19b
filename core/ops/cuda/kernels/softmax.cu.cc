#include "core/ops/cuda/kernels/softmax.h"

#include <cmath>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/ops/cuda/kernels/pack.h"

namespace dpipe::ops::cuda {
namespace {

// The row of a thread's warp, its number of visible columns, and its biases or null.
struct SoftmaxRow {
  int64_t index;
  int64_t visible;
  const float* bias;
};
DPIPE_KERNEL_FUNCTION SoftmaxRow RowOf(const SoftmaxShape& shape) {
  const int64_t index = ThreadOfAll() / kWarp;
  if (index >= shape.heads * shape.rows) return {index, 0, nullptr};
  const int64_t query = index % shape.rows, seen = query + 1;
  const float* bias = shape.relative_bias;
  if (bias != nullptr) {
    bias += index / shape.rows * (shape.rows + shape.columns - 1) + shape.rows - 1 - query;
  }
  return {index, shape.causal && seen < shape.columns ? seen : shape.columns, bias};
}

// Returns the score of column i, scaled and with its bias.
DPIPE_KERNEL_FUNCTION float ScoreOf(const SoftmaxShape& shape, const SoftmaxRow& row,
                                    const float* scores, int64_t i) {
  const float scaled = scores[i] * shape.scale;
  return row.bias == nullptr ? scaled : scaled + row.bias[i];
}

template <typename T>
struct Softmax {
  SoftmaxShape shape;
  const float* scores;
  T* probabilities;
  float* log_sums;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const SoftmaxRow row = RowOf(shape);
    if (row.visible == 0) return;
    const float* const from = scores + row.index * shape.columns;
    T* const to = probabilities + row.index * shape.columns;
    const uint32_t lane = Thread() % kWarp;
    float largest = -INFINITY, sum = 0;
    for (int64_t i = lane; i < row.visible; i += kWarp) {
      const float score = ScoreOf(shape, row, from, i);
      largest = score > largest ? score : largest;
    }
    largest = WarpMax(largest);
    for (int64_t i = lane; i < row.visible; i += kWarp) {
      sum += expf(ScoreOf(shape, row, from, i) - largest);
    }
    sum = WarpSum(sum);
    const float inverse = 1.0f / sum;
    for (int64_t i = lane; i < shape.columns; i += kWarp) {
      const float p = expf(ScoreOf(shape, row, from, i) - largest) * inverse;
      Store(to + i, i < row.visible ? p : 0.0f);
    }
    if (log_sums != nullptr && lane == 0) log_sums[row.index] = largest + logf(sum);
  }
};

template <typename T>
struct SoftmaxGrad {
  SoftmaxShape shape;
  const float* scores;
  const float* log_sums;
  const float* dp;
  T* p;
  T* ds;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const SoftmaxRow row = RowOf(shape);
    if (row.visible == 0) return;
    const int64_t begin = row.index * shape.columns;
    const uint32_t lane = Thread() % kWarp;
    const float log_sum = log_sums[row.index];
    float mean = 0;
    const float* const from = scores + begin;
    for (int64_t i = lane; i < row.visible; i += kWarp) {
      mean += expf(ScoreOf(shape, row, from, i) - log_sum) * dp[begin + i];
    }
    mean = WarpSum(mean);
    for (int64_t i = lane; i < shape.columns; i += kWarp) {
      const bool visible = i < row.visible;
      const float probability = visible ? expf(ScoreOf(shape, row, from, i) - log_sum) : 0.0f;
      const float d = visible ? shape.scale * (probability * (dp[begin + i] - mean)) : 0.0f;
      Store(p + begin + i, probability);
      Store(ds + begin + i, d);
    }
  }
};

// One thread per head and diagonal, so that adjacent threads read adjacent columns.
template <typename T>
struct DiagonalSums {
  SoftmaxShape shape;
  const T* ds;
  float* dbias;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t diagonals = shape.rows + shape.columns - 1, i = ThreadOfAll();
    if (i >= shape.heads * diagonals) return;
    const int64_t first = i % diagonals - (shape.rows - 1);  // the column of row 0
    const int64_t begin = first < 0 ? -first : 0, left = shape.columns - first;
    const int64_t end = left < shape.rows ? left : shape.rows;
    const T* const from = ds + i / diagonals * shape.rows * shape.columns + first;
    float sum = 0;
    for (int64_t r = begin; r < end; ++r) sum += Load(from + r * (shape.columns + 1));
    dbias[i] = sum / shape.scale;
  }
};

uint32_t BlocksOf(const SoftmaxShape& shape) { return BlocksFor(shape.heads * shape.rows * kWarp); }

}  // namespace

template <typename T>
void SoftmaxOfRows(const Stream& stream, const SoftmaxShape& shape, const float* scores,
                   T* probabilities, float* log_sums) {
  Launch(stream, BlocksOf(shape), Softmax<T>{shape, scores, probabilities, log_sums});
}

template <typename T>
void SoftmaxGradOfRows(const Stream& stream, const SoftmaxShape& shape, const float* scores,
                       const float* log_sums, const float* dp, T* p, T* ds) {
  Launch(stream, BlocksOf(shape), SoftmaxGrad<T>{shape, scores, log_sums, dp, p, ds});
}

template <typename T>
void RelativeBiasGrad(const Stream& stream, const SoftmaxShape& shape, const T* ds, float* dbias) {
  Launch(stream, BlocksFor(shape.heads * (shape.rows + shape.columns - 1)),
         DiagonalSums<T>{shape, ds, dbias});
}

#define DPIPE_INSTANTIATE(T)                                                                      \
  template void SoftmaxOfRows(const Stream&, const SoftmaxShape&, const float*, T*, float*);      \
  template void SoftmaxGradOfRows(const Stream&, const SoftmaxShape&, const float*, const float*, \
                                  const float*, T*, T*);                                          \
  template void RelativeBiasGrad(const Stream&, const SoftmaxShape&, const T*, float*);
DPIPE_INSTANTIATE(float)
DPIPE_INSTANTIATE(Bf16)

}  // namespace dpipe::ops::cuda

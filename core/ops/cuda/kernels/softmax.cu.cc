#include "core/ops/cuda/kernels/softmax.h"

#include <cmath>

#include "core/ops/cuda/kernels/pack.h"
#include "core/ops/cuda/kernels/reduce.h"

namespace dpipe::ops::cuda {
namespace {

// The row of a thread's warp and its number of visible columns.
struct SoftmaxRow {
  int64_t index;
  int64_t visible;
};
DPIPE_KERNEL_FUNCTION SoftmaxRow RowOf(const SoftmaxShape& shape) {
  const int64_t index = ThreadOfAll() / kWarp;
  if (index >= shape.heads * shape.rows) return {index, 0};
  const int64_t seen = index % shape.rows + 1;
  return {index, shape.causal && seen < shape.columns ? seen : shape.columns};
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
      largest = from[i] > largest ? from[i] : largest;
    }
    largest = WarpMax(largest) * shape.scale;
    for (int64_t i = lane; i < row.visible; i += kWarp) {
      sum += expf(from[i] * shape.scale - largest);
    }
    sum = WarpSum(sum);
    const float inverse = 1.0f / sum;
    for (int64_t i = lane; i < shape.columns; i += kWarp) {
      const float p = expf(from[i] * shape.scale - largest) * inverse;
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
    for (int64_t i = lane; i < row.visible; i += kWarp) {
      mean += expf(scores[begin + i] * shape.scale - log_sum) * dp[begin + i];
    }
    mean = WarpSum(mean);
    for (int64_t i = lane; i < shape.columns; i += kWarp) {
      const bool visible = i < row.visible;
      const float probability = visible ? expf(scores[begin + i] * shape.scale - log_sum) : 0.0f;
      const float d = visible ? shape.scale * (probability * (dp[begin + i] - mean)) : 0.0f;
      Store(p + begin + i, probability);
      Store(ds + begin + i, d);
    }
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

#define DPIPE_INSTANTIATE(T)                                                                      \
  template void SoftmaxOfRows(const Stream&, const SoftmaxShape&, const float*, T*, float*);      \
  template void SoftmaxGradOfRows(const Stream&, const SoftmaxShape&, const float*, const float*, \
                                  const float*, T*, T*);
DPIPE_INSTANTIATE(float)
DPIPE_INSTANTIATE(Bf16)

}  // namespace dpipe::ops::cuda

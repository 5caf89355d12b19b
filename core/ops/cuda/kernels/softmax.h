// Attention's kernels between its matrix products, one warp per row. T: float or Bf16.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_SOFTMAX_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_SOFTMAX_H_

#include <cstdint>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/tensor/bf16.h"

namespace dpipe::ops::cuda {

// Rows of `columns` scores: `rows` queries for each of `heads` heads. If causal, query i of a head
// sees only columns 0 to i.
struct SoftmaxShape {
  int64_t heads, rows, columns;
  bool causal;
  float scale;  // positive
  // [heads, rows + columns - 1] or null: element j - i + rows - 1 of a head is added to the scaled
  // score of query i and column j.
  const float* relative_bias = nullptr;
};

// probabilities = softmax(scale * scores + bias), 0 if masked; log_sums [heads, rows] =
// log(sum(exp(scale * scores + bias))), unless null. The probabilities may overwrite the scores.
template <typename T>
void SoftmaxOfRows(const Stream& stream, const SoftmaxShape& shape, const float* scores,
                   T* probabilities, float* log_sums);

// Computes the probabilities p and ds = scale * p * (dp - sum(p * dp)) from the same scores and
// log_sums and the gradient dp of the probabilities. p may overwrite the scores, and ds may
// overwrite dp.
template <typename T>
void SoftmaxGradOfRows(const Stream& stream, const SoftmaxShape& shape, const float* scores,
                       const float* log_sums, const float* dp, T* p, T* ds);

// Computes dbias, shaped as relative_bias, from SoftmaxGradOfRows's ds.
template <typename T>
void RelativeBiasGrad(const Stream& stream, const SoftmaxShape& shape, const T* ds, float* dbias);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_SOFTMAX_H_

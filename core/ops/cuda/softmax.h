// Attention's kernels between its matrix products, a warp a row. T: float or Bf16.
#ifndef DPIPE_CORE_OPS_CUDA_SOFTMAX_H_
#define DPIPE_CORE_OPS_CUDA_SOFTMAX_H_

#include <cstdint>

#include "core/ops/cuda/kernel.h"
#include "core/tensor/bf16.h"

namespace dpipe::ops::cuda {

// Rows of `columns` scores, of `rows` queries for each of `heads` heads. Where causal, query i of a
// head sees columns 0 to i only.
struct SoftmaxShape {
  int64_t heads, rows, columns;
  bool causal;
  float scale;  // positive
};

// probabilities = softmax(scale * scores), 0 where masked; log_sums [heads, rows], unless null,
// = log(sum(exp(scale * scores))). The probabilities may take the place of the scores.
template <typename T>
void SoftmaxOfRows(const Stream& stream, const SoftmaxShape& shape, const float* scores,
                   T* probabilities, float* log_sums);

// From the same scores and log_sums and the gradient dp to the probabilities p: p itself, and
// ds = scale * p * (dp - sum(p * dp)). p may take the place of the scores, and ds that of dp.
template <typename T>
void SoftmaxGradOfRows(const Stream& stream, const SoftmaxShape& shape, const float* scores,
                       const float* log_sums, const float* dp, T* p, T* ds);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_SOFTMAX_H_

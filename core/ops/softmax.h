// Softmax over rows in place, and its gradient: attention's elementwise part, fp32.
#ifndef DPIPE_CORE_OPS_SOFTMAX_H_
#define DPIPE_CORE_OPS_SOFTMAX_H_

#include <cstdint>

namespace dpipe::ops {

// Which columns of a row are there: all, or in causal attention those up to the row's own index.
struct SoftmaxRows {
  int64_t rows = 0;
  int64_t columns = 0;
  bool causal = false;
  int64_t first_row = 0;  // the index of the first of these rows, where causal
  float scale = 1;        // positive
};

// scores [rows, columns] -> probabilities softmax(scale * scores), zero where a column is masked.
// `log_sums` [rows], unless null, receives log(sum(exp(scale * scores))).
void Softmax(const SoftmaxRows& rows, float* scores, float* log_sums);

// The same probabilities once `log_sums` are known: exp(scale * scores - log_sum).
void SoftmaxFromLogSums(const SoftmaxRows& rows, const float* log_sums, float* scores);

// gradients [rows, columns] of the probabilities -> of the scores, in place:
// scale * p * (g - sum(p * g)). Masked columns get zero, since their p is.
void SoftmaxGrad(const SoftmaxRows& rows, const float* probabilities, float* gradients);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_SOFTMAX_H_

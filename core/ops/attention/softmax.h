// In-place softmax over rows and its gradient, in fp32: the elementwise part of attention.
#ifndef DPIPE_CORE_OPS_ATTENTION_SOFTMAX_H_
#define DPIPE_CORE_OPS_ATTENTION_SOFTMAX_H_

#include <cstdint>

namespace dpipe::ops {

// The unmasked columns of a row: all, or in causal attention those up to the row's own index.
struct SoftmaxRows {
  int64_t rows = 0;
  int64_t columns = 0;
  bool causal = false;
  int64_t first_row = 0;  // the index of the first of these rows; only if causal
  float scale = 1;        // positive
  // If not null, bias[c - r] is added to the scaled score in row r, column c.
  const float* relative_bias = nullptr;
};

// scores [rows, columns] -> probabilities softmax(scale * scores + bias), zero for masked columns.
// Writes log(sum(exp(scale * scores + bias))) to `log_sums` [rows] unless it is null.
void Softmax(const SoftmaxRows& rows, float* scores, float* log_sums);

// Computes the same probabilities from known `log_sums`: exp(scale * scores + bias - log_sum).
void SoftmaxFromLogSums(const SoftmaxRows& rows, const float* log_sums, float* scores);

// Computes, in place, the gradients [rows, columns] of the scores from those of the probabilities:
// scale * p * (g - sum(p * g)). Masked columns get zero, because their p is zero.
void SoftmaxGrad(const SoftmaxRows& rows, const float* probabilities, float* gradients);

// Adds to dbias[c - r] the gradient of the bias in row r, column c, from SoftmaxGrad's result.
void AddRelativeBiasGrad(const SoftmaxRows& rows, const float* gradients, float* dbias);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ATTENTION_SOFTMAX_H_

// Multi-head attention: self, cross and causal.
//
// For each sample and head h, with d = width / num_heads and that head's columns [h*d, (h+1)*d):
//
//   P = softmax_over_keys(scale * q k^T)        [Tq, Tk]      y = P v        [Tq, d]
//
// With `causal`, query i sees only keys 0..i (there are as many keys as queries).
//
// A relative bias (T5's, arXiv 1910.10683) adds to the scaled score of query i and key j a number
// that depends only on the head and on j - i. It is a tensor fp32 [B, num_heads, Tq + Tk - 1] with
// the number for j - i at index j - i + Tq - 1.
#ifndef DPIPE_CORE_OPS_ATTENTION_ATTENTION_H_
#define DPIPE_CORE_OPS_ATTENTION_ATTENTION_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

struct AttentionParams {
  int num_heads = 1;
  float scale = 1;  // 1 / sqrt(d) in all models here
  bool causal = false;
};

// Returns 1 / sqrt(width / num_heads).
float AttentionScale(int64_t width, int num_heads);

struct AttentionResult {
  Tensor y;  // [B, Tq, width], in q's element type
  // Input of AttentionInputGrad; undefined if not requested. Its shape and element type depend on
  // the backend.
  Tensor saved;
};

// Computes y from q: [B, Tq, width] and k, v: [B, Tk, width], of one element type, fp32 or bf16.
// Heads are interleaved in the width, as in the projections' outputs. `keep_saved` is false for
// forward only. `relative_bias` may be undefined.
absl::StatusOr<AttentionResult> AttentionForward(const AttentionParams& params, const Tensor& q,
                                                 const Tensor& k, const Tensor& v,
                                                 bool keep_saved = true,
                                                 const Tensor& relative_bias = Tensor());

struct AttentionGrads {
  Tensor dq, dk, dv;      // shaped and typed as q, k, v
  Tensor drelative_bias;  // shaped and typed as relative_bias; undefined if that is
};

// Computes the gradients from dy: [B, Tq, width], the inputs of forward and the `saved` that it
// returned. There are no weights, so there is no weight gradient.
absl::StatusOr<AttentionGrads> AttentionInputGrad(const AttentionParams& params, const Tensor& dy,
                                                  const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const Tensor& saved,
                                                  const Tensor& relative_bias = Tensor());

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ATTENTION_ATTENTION_H_

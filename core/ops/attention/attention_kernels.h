// The implementations behind attention.cc: attention.h's functions without the checks.
#ifndef DPIPE_CORE_OPS_ATTENTION_ATTENTION_KERNELS_H_
#define DPIPE_CORE_OPS_ATTENTION_ATTENTION_KERNELS_H_

#include "core/ops/attention/attention.h"

namespace dpipe::ops {
namespace ref {
// Saves only a placeholder: backward recomputes the probabilities.
AttentionResult AttentionForward(const AttentionParams& params, const Tensor& q, const Tensor& k,
                                 const Tensor& v, bool keep_saved, const Tensor& relative_bias);
AttentionGrads AttentionInputGrad(const AttentionParams& params, const Tensor& dy, const Tensor& q,
                                  const Tensor& k, const Tensor& v, const Tensor& relative_bias);
}  // namespace ref
namespace cpu {
absl::StatusOr<AttentionResult> AttentionForward(const AttentionParams& params, const Tensor& q,
                                                 const Tensor& k, const Tensor& v, bool keep_saved,
                                                 const Tensor& relative_bias);
absl::StatusOr<AttentionGrads> AttentionInputGrad(const AttentionParams& params, const Tensor& dy,
                                                  const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const Tensor& saved, const Tensor& relative_bias);
}  // namespace cpu
namespace cuda {
absl::StatusOr<AttentionResult> AttentionForward(const AttentionParams& params, const Tensor& q,
                                                 const Tensor& k, const Tensor& v, bool keep_saved,
                                                 const Tensor& relative_bias);
absl::StatusOr<AttentionGrads> AttentionInputGrad(const AttentionParams& params, const Tensor& dy,
                                                  const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const Tensor& saved, const Tensor& relative_bias);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ATTENTION_ATTENTION_KERNELS_H_

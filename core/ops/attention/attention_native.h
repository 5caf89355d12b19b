// Attention by bf16 instructions, used for many scores if onednn::NativeBf16 is true
// (AttentionSizes::native).
//
// It differs from attention_cpu.cc only in its products. They read bf16 factors in place, and round
// probabilities and their gradients to bf16 before multiplying; sums are fp32. The saved tensor is
// the same.
#ifndef DPIPE_CORE_OPS_ATTENTION_ATTENTION_NATIVE_H_
#define DPIPE_CORE_OPS_ATTENTION_ATTENTION_NATIVE_H_

#include "core/ops/attention/attention_heads.h"

namespace dpipe::ops::cpu {

// All tensors are bf16, except the bias.
absl::StatusOr<AttentionResult> NativeAttention(const AttentionParams& params,
                                                const AttentionSizes& s, const Tensor& q,
                                                const Tensor& k, const Tensor& v, bool keep_saved,
                                                const Tensor& relative_bias);
// Writes the gradients of q, k and v, and adds to that of the bias.
absl::Status NativeAttentionGrad(const AttentionParams& params, const AttentionSizes& s,
                                 const Tensor& dy, const Tensor& q, const Tensor& k,
                                 const Tensor& v, const Tensor& saved, const Tensor& relative_bias,
                                 const AttentionGrads& grads);

}  // namespace dpipe::ops::cpu

#endif  // DPIPE_CORE_OPS_ATTENTION_ATTENTION_NATIVE_H_

// Attention by bf16 instructions, where onednn::NativeBf16 says that they are the faster.
//
// As attention_cpu.cc, but that products take bf16 factors where they lie and round probabilities,
// and their gradients, to bf16 before they are multiplied; sums are fp32. What is saved is the
// same.
#ifndef DPIPE_CORE_OPS_ATTENTION_NATIVE_H_
#define DPIPE_CORE_OPS_ATTENTION_NATIVE_H_

#include "core/ops/attention_heads.h"

namespace dpipe::ops::cpu {

// All tensors bf16.
absl::StatusOr<AttentionResult> NativeAttention(const AttentionParams& params,
                                                const AttentionSizes& s, const Tensor& q,
                                                const Tensor& k, const Tensor& v, bool keep_saved);
absl::StatusOr<AttentionGrads> NativeAttentionGrad(const AttentionParams& params,
                                                   const AttentionSizes& s, const Tensor& dy,
                                                   const Tensor& q, const Tensor& k,
                                                   const Tensor& v, const Tensor& saved);

}  // namespace dpipe::ops::cpu

#endif  // DPIPE_CORE_OPS_ATTENTION_NATIVE_H_

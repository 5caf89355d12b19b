// Token embedding, with learned positions.
#ifndef DPIPE_CORE_OPS_EMBEDDING_H_
#define DPIPE_CORE_OPS_EMBEDDING_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// y[b, t] = table[ids[b, t]] + positions[t], rounded once to `dtype` (fp32 or bf16) -> [B, T, C].
// ids int32 [B, T]; table fp32 [V, C]; positions fp32 [P, C] with P >= T, or undefined for none.
// InvalidArgument where an id is outside [0, V), naming both; on CUDA devices, for which nobody
// waits here, a row of NaNs instead, and no gradient.
absl::StatusOr<Tensor> EmbeddingForward(const Tensor& ids, const Tensor& table,
                                        const Tensor& positions, DType dtype);

// Adds dy [B, T, C] into the fp32 rows that it came from, in (b, t) order; either may be null.
absl::Status EmbeddingWeightGrad(const Tensor& ids, const Tensor& dy, Tensor* dtable,
                                 Tensor* dpositions);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_EMBEDDING_H_

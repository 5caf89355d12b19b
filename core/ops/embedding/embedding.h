// Token embedding, with learned positions.
#ifndef DPIPE_CORE_OPS_EMBEDDING_EMBEDDING_H_
#define DPIPE_CORE_OPS_EMBEDDING_EMBEDDING_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Returns y[b, t] = table[ids[b, t]] + positions[t], rounded once to `dtype` (fp32 or bf16) -> [B,
// T, C]. ids int32 [B, T]; table fp32 [V, C]; positions fp32 [P, C] with P >= T, or undefined for
// none. Returns InvalidArgument if an id is outside [0, V), naming both. CUDA devices give a row of
// NaNs and no gradient instead, because checking would require a wait.
absl::StatusOr<Tensor> EmbeddingForward(const Tensor& ids, const Tensor& table,
                                        const Tensor& positions, DType dtype);

// Adds dy [B, T, C] to the fp32 rows that it came from, in (b, t) order. dtable or dpositions may
// be null.
absl::Status EmbeddingWeightGrad(const Tensor& ids, const Tensor& dy, Tensor* dtable,
                                 Tensor* dpositions);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_EMBEDDING_EMBEDDING_H_

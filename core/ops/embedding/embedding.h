// A network's inputs: tokens, the state of one of them, and timesteps.
#ifndef DPIPE_CORE_OPS_EMBEDDING_EMBEDDING_H_
#define DPIPE_CORE_OPS_EMBEDDING_EMBEDDING_H_

#include <cstdint>
#include <optional>

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Token embedding, with learned positions:
//
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

// The state of one token per sample, such as CLIP's pooled output: that of the text's end.

// ids int32 [B, T], x [B, T, C] in fp32 or bf16 -> [B, C]: x[b, t] of the first t with
// ids[b, t] == token, or t = 0 if there is none. Without a token: of the first t with the largest
// id.
absl::StatusOr<Tensor> SelectTokenForward(std::optional<int32_t> token, const Tensor& ids,
                                          const Tensor& x);

// Returns dx [B, T, C] from dy [B, C]; zero for the other tokens.
absl::StatusOr<Tensor> SelectTokenInputGrad(std::optional<int32_t> token, const Tensor& ids,
                                            const Tensor& dy);

// Sinusoids of the diffusion timestep (diffusers/models/embeddings.py, get_timestep_embedding).

// The defaults are Stable Diffusion's.
struct TimeEmbeddingParams {
  int dim = 320;               // of the result; even
  bool cosine_first = true;    // [cos | sin]; config key flip_sin_to_cos
  double frequency_shift = 0;  // config key freq_shift; below dim / 2
  double max_period = 10000;
};

// timesteps [B] in fp32 or int32 -> [B, dim] in `dtype` (fp32 or bf16):
//   angle[b, i] = timesteps[b] * max_period^(-i / (dim / 2 - frequency_shift)), i < dim / 2,
// computed in double. Has no gradient.
absl::StatusOr<Tensor> TimeEmbedding(const TimeEmbeddingParams& params, const Tensor& timesteps,
                                     DType dtype);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_EMBEDDING_EMBEDDING_H_

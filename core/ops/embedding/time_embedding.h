// Sinusoids of the diffusion timestep (diffusers/models/embeddings.py, get_timestep_embedding).
#ifndef DPIPE_CORE_OPS_EMBEDDING_TIME_EMBEDDING_H_
#define DPIPE_CORE_OPS_EMBEDDING_TIME_EMBEDDING_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

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

#endif  // DPIPE_CORE_OPS_EMBEDDING_TIME_EMBEDDING_H_

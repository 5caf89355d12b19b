// Kernels for a network's inputs: tokens, timesteps, latents. T: float or Bf16.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_LOOKUPS_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_LOOKUPS_H_

#include <cstdint>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/tensor/bf16.h"

namespace dpipe::ops::cuda {

struct EmbeddingShape {
  int64_t batch, tokens, channels;
  int64_t vocabulary;
};

// embedding.h; positions may be null. An id outside the table gives a row of NaNs.
template <typename T>
void EmbedTokens(const Stream& stream, const EmbeddingShape& shape, const int32_t* ids,
                 const float* table, const float* positions, T* y);
// dtable or dpositions may be null. An id outside the table has no gradient.
template <typename T>
void EmbedTokensGrad(const Stream& stream, const EmbeddingShape& shape, const int32_t* ids,
                     const T* dy, float* dtable, float* dpositions);

// time_embedding.h: y [batch, 2 * half], with cosines from `cosine` on and sines from `sine` on.
// Angle i is timestep * max_period^(-i / divisor). Either `timesteps` or `integer_timesteps` is
// null.
struct TimeEmbeddingShape {
  int64_t batch, half, cosine, sine;
  double max_period, divisor;
};
template <typename T>
void EmbedTimesteps(const Stream& stream, const TimeEmbeddingShape& shape, const float* timesteps,
                    const int32_t* integer_timesteps, T* y);

// relative_bias.h. first[k]: the smallest distance in bucket k of those of one sign.
struct RelativeBiasShape {
  static constexpr int kMaxBuckets = 64;  // of one sign
  int64_t batch, heads, queries, keys;
  int buckets;  // of one sign
  int64_t first[kMaxBuckets];
};
void LookUpRelativeBias(const Stream& stream, const RelativeBiasShape& shape, const float* table,
                        float* bias);
void AddRelativeBiasTableGrad(const Stream& stream, const RelativeBiasShape& shape,
                              const float* dbias, float* dtable);

// select_token.h: x [batch, tokens, channels], y [batch, channels].
struct SelectTokenShape {
  int64_t batch, tokens, channels;
  bool largest;  // the largest id; else `token`
  int32_t token;
};
template <typename T>
void SelectTokens(const Stream& stream, const SelectTokenShape& shape, const int32_t* ids,
                  const T* x, T* y);
template <typename T>
void SelectTokensGrad(const Stream& stream, const SelectTokenShape& shape, const int32_t* ids,
                      const T* dy, T* dx);

// gaussian_sample.h: moments [rows, 2 * channels].
template <typename T>
void SampleGaussian(const Stream& stream, int64_t rows, int64_t channels, float factor,
                    const T* moments, const float* noise, float* z);
template <typename T>
void SampleGaussianGrad(const Stream& stream, int64_t rows, int64_t channels, float factor,
                        const T* moments, const float* noise, const float* dz, T* d_moments);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_LOOKUPS_H_

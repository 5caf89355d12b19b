// Kernels for a network's inputs: tokens, timesteps, and positions of tokens by sinusoids that they
// compute themselves. T: float or Bf16.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_EMBEDDING_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_EMBEDDING_H_

#include <cstdint>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/tensor/bf16.h"

namespace dpipe::ops::cuda {

struct EmbeddingShape {
  int64_t batch, tokens, channels;
  int64_t vocabulary;
};

// Embedding; positions may be null. An id outside the table gives a row of NaNs.
template <typename T>
void EmbedTokens(const Stream& stream, const EmbeddingShape& shape, const int32_t* ids,
                 const float* table, const float* positions, T* y);
// dtable or dpositions may be null. An id outside the table has no gradient.
template <typename T>
void EmbedTokensGrad(const Stream& stream, const EmbeddingShape& shape, const int32_t* ids,
                     const T* dy, float* dtable, float* dpositions);

// TimeEmbedding: y [batch, 2 * half], with cosines from `cosine` on and sines from `sine` on.
// Angle i is timestep * max_period^(-i / divisor). Either `timesteps` or `integer_timesteps` is
// null.
struct TimeEmbeddingShape {
  int64_t batch, half, cosine, sine;
  double max_period, divisor;
};
template <typename T>
void EmbedTimesteps(const Stream& stream, const TimeEmbeddingShape& shape, const float* timesteps,
                    const int32_t* integer_timesteps, T* y);

// RelativeBias. first[k]: the smallest distance in bucket k of those of one sign.
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

// SelectToken: x [batch, tokens, channels], y [batch, channels].
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

// RotaryEmbedding.
struct RotaryShape {
  int64_t batch, tokens, heads;
  int64_t text_tokens, image_columns;
  int64_t pairs[3];  // per axis
  double log_theta;
  float sign;  // of the angles
};
// x and y: [batch, tokens, heads, 2 * (sum of pairs)].
template <typename T>
void Rotate(const Stream& stream, const RotaryShape& shape, const T* x, T* y);

// AddPositionTable.
struct PositionGrid {
  int64_t batch, rows, columns;
  int64_t top, left;  // of the image in the table
  int64_t quarter;    // a token has 4 * quarter elements
  float tokens_per_position;
  double log_rate;  // of frequency k + 1 to frequency k
};
// y = x + table; both are [batch, rows, columns, 4 * quarter].
template <typename T>
void AddPositions(const Stream& stream, const PositionGrid& grid, const T* x, T* y);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_EMBEDDING_H_

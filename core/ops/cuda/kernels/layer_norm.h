// The kernels of layer normalization; ../layer_norm.h has the definitions. Each row is processed by
// a warp, or by a quarter or half of one if it fits. T: float or Bf16.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_LAYER_NORM_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_LAYER_NORM_H_

#include <cstdint>

#include "core/ops/cuda/kernels/column_walk.h"

namespace dpipe::ops::cuda {

// x is [rows, channels]; stats: [rows, 2]; scale and bias: [rows / rows_per_vector, channels].
template <typename T>
void LayerNormValues(const Stream& stream, int64_t rows, int64_t channels, int64_t rows_per_vector,
                     float eps, const T* x, const float* scale, const float* bias, float* stats,
                     T* y);

// modulated_layer_norm.h: v [batch, 2 * channels] is divided into scale, plus 1, and shift, each
// [batch, channels].
template <typename T>
void SplitModulation(const Stream& stream, int64_t batch, int64_t channels, bool shift_first,
                     const T* v, float* scale, float* shift);

// scale: [channels], and of a sample `scale_stride` further than that of the previous one. sums:
// [batch, 2, channels]; run_sums: workspace of RunSumsSize(shape, 2) numbers. addend: added to dx
// unless null.
template <typename T>
void LayerNormGradient(const Stream& stream, const ChannelsLast& shape, const T* x, const T* dy,
                       const float* stats, const float* scale, int64_t scale_stride,
                       const T* addend, float* run_sums, float* sums, T* dx);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_LAYER_NORM_H_

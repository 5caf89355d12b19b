// The kernels of norms; core/ops/norm has the definitions. T: float or Bf16.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_NORM_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_NORM_H_

#include <cstdint>

#include "core/ops/cuda/kernels/column_walk.h"

namespace dpipe::ops::cuda {

// Group normalization. Moments are sums of x - k and (x - k)^2, where k is the group's first
// element. A mean that is large compared with the deviation therefore loses no digits.
struct GroupNormShape {
  ChannelsLast x;
  int64_t groups;
  float eps;
  bool silu;
};

// fp32 numbers of `workspace`, for forward and for the input gradient.
int64_t GroupNormWorkspace(const GroupNormShape& shape);

// stats: [batch, groups, 2].
template <typename T>
void GroupNormValues(const Stream& stream, const GroupNormShape& shape, const T* x,
                     const float* scale, const float* bias, float* workspace, float* stats, T* y);

// sums: [batch, channels, 2]. addend: added to dx unless null.
template <typename T>
void GroupNormGradient(const Stream& stream, const GroupNormShape& shape, const T* x, const T* dy,
                       const float* stats, const float* scale, const float* bias, const T* addend,
                       float* workspace, float* sums, T* dx);

// Adds sums [batch, 2 * channels] to dbias and dscale in the order of samples. The two numbers of
// channel c are at c * channel_stride and term_stride after it.
void AddNormWeightGrads(const Stream& stream, int64_t batch, int64_t channels, int64_t term_stride,
                        int64_t channel_stride, const float* sums, float* dscale, float* dbias);

// Layer normalization. Each row is processed by a warp, or by a quarter or half of one if it fits.
//
// x is [rows, channels]; stats: [rows, 2]; scale and bias: [rows / rows_per_vector, channels].
template <typename T>
void LayerNormValues(const Stream& stream, int64_t rows, int64_t channels, int64_t rows_per_vector,
                     float eps, const T* x, const float* scale, const float* bias, float* stats,
                     T* y);

// ModulatedLayerNorm: v [batch, 2 * channels] is divided into scale, plus 1, and shift, each
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

// RMS normalization, with rows as above.
//
// x is [rows, channels]; rstd: [rows].
template <typename T>
void RmsNormValues(const Stream& stream, int64_t rows, int64_t channels, float eps, const T* x,
                   const float* scale, float* rstd, T* y);

// sums: [batch, channels]; run_sums: workspace of RunSumsSize(shape, 1) numbers. addend: added to
// dx unless null.
template <typename T>
void RmsNormGradient(const Stream& stream, const ChannelsLast& shape, const T* x, const T* dy,
                     const float* rstd, const float* scale, const T* addend, float* run_sums,
                     float* sums, T* dx);

// Adds sums [batch, channels] to dscale in the order of samples.
void AddRmsNormWeightGrad(const Stream& stream, int64_t batch, int64_t channels, const float* sums,
                          float* dscale);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_NORM_H_

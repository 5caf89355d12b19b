// The kernels of RMS normalization; ../../norm/rms_norm.h has the definitions. Each row is
// processed by a warp, or by a quarter or half of one if it fits. T: float or Bf16.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_RMS_NORM_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_RMS_NORM_H_

#include <cstdint>

#include "core/ops/cuda/kernels/column_walk.h"

namespace dpipe::ops::cuda {

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

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_RMS_NORM_H_

// Layer normalisation's kernels: see ../layer_norm.h for what they compute. A row is a warp's, or a
// quarter or half of it where that has room for it; T: float or Bf16.
#ifndef DPIPE_CORE_OPS_CUDA_LAYER_NORM_H_
#define DPIPE_CORE_OPS_CUDA_LAYER_NORM_H_

#include <cstdint>

#include "core/ops/cuda/column_walk.h"

namespace dpipe::ops::cuda {

// x is [rows, channels]; stats: [rows, 2].
template <typename T>
void LayerNormValues(const Stream& stream, int64_t rows, int64_t channels, float eps, const T* x,
                     const float* scale, const float* bias, float* stats, T* y);

// sums: [batch, 2, channels]; run_sums: RunSumsSize(shape, 2) numbers to work with. addend: added
// to dx, or null.
template <typename T>
void LayerNormGradient(const Stream& stream, const ChannelsLast& shape, const T* x, const T* dy,
                       const float* stats, const float* scale, const T* addend, float* run_sums,
                       float* sums, T* dx);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_LAYER_NORM_H_

// The kernels of group normalization; ../group_norm.h has the definitions. T: float or Bf16.
//
// Moments are sums of x - k and (x - k)^2, where k is the group's first element. A mean that is
// large compared with the deviation therefore loses no digits.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_GROUP_NORM_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_GROUP_NORM_H_

#include <cstdint>

#include "core/ops/cuda/kernels/column_walk.h"

namespace dpipe::ops::cuda {

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

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_GROUP_NORM_H_

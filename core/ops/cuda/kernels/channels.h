// Kernels that combine channels-last data [batch, positions, channels] with per-channel numbers of
// a sample. T: float or Bf16.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_CHANNELS_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_CHANNELS_H_

#include <cstdint>

#include "core/ops/cuda/kernels/column_walk.h"

namespace dpipe::ops::cuda {

// add.h: y = x + v at every position, v: [batch, channels].
template <typename T>
void AddVector(const Stream& stream, const ChannelsLast& shape, const T* x, const T* v, T* y);

// y += bias + vector + image in one pass; null terms are omitted. bias is fp32 [channels] and
// vector [batch, channels], both added at every position.
template <typename T>
void AddTerms(const Stream& stream, const ChannelsLast& shape, const float* bias, const T* vector,
              const T* image, T* y);

// sums [batch, channels] = the sums of x over positions. run_sums: RunSumsSize(shape, 1).
template <typename T>
void SumPositions(const Stream& stream, const ChannelsLast& shape, const T* x, float* run_sums,
                  T* sums);
// Adds the sums of a single sample to sums [channels], for bias_grad.h.
template <typename T>
void AddRows(const Stream& stream, const ChannelsLast& shape, const T* x, float* run_sums,
             float* sums);

// modulate.h: v [batch, 2 * channels].
template <typename T>
void ModulateValues(const Stream& stream, const ChannelsLast& shape, bool silu, const T* x,
                    const T* v, T* y);
// run_sums: RunSumsSize(shape, 2).
template <typename T>
void ModulateGradient(const Stream& stream, const ChannelsLast& shape, bool silu, const T* x,
                      const T* v, const T* dy, float* run_sums, T* dx, T* dv);

// gated_add.h: gate [batch, channels].
template <typename T>
void AddGated(const Stream& stream, const ChannelsLast& shape, const T* x, const T* gate,
              const T* h, T* y);
// run_sums: RunSumsSize(shape, 1).
template <typename T>
void AddGatedGradient(const Stream& stream, const ChannelsLast& shape, const T* gate, const T* h,
                      const T* dy, float* run_sums, T* dgate, T* dh);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_CHANNELS_H_

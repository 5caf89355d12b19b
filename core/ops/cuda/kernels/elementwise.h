// Kernels that compute each element from the elements at the same index, or from numbers of its
// channel. T: float or Bf16.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_ELEMENTWISE_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_ELEMENTWISE_H_

#include <cstdint>

#include "core/ops/cuda/kernels/column_walk.h"
#include "core/ops/cuda/kernels/kernel.h"
#include "core/ops/support/curves.h"
#include "core/tensor/bf16.h"

namespace dpipe::ops::cuda {

// Activations of n elements.
template <typename T>
void MapActivation(const Stream& stream, Activation activation, int64_t n, const T* x, T* y);
template <typename T>
void MapActivationGrad(const Stream& stream, Activation activation, int64_t n, const T* x,
                       const T* dy, T* dx);

// GEGLU: rows of 2 * width (x, dx) and of width (y, dy) elements.
template <typename T>
void MapGeglu(const Stream& stream, int64_t rows, int64_t width, const T* x, T* y);
template <typename T>
void MapGegluGrad(const Stream& stream, int64_t rows, int64_t width, const T* x, const T* dy,
                  T* dx);

// y = a + b; y = a * b; y = factor * x; y += factor * x. U: float, or T.
template <typename T>
void MapAdd(const Stream& stream, int64_t n, const T* a, const T* b, T* y);
template <typename T>
void MapMultiply(const Stream& stream, int64_t n, const T* a, const T* b, T* y);
template <typename T>
void MapScale(const Stream& stream, int64_t n, float factor, const T* x, T* y);
template <typename T, typename U>
void MapAxpy(const Stream& stream, int64_t n, float factor, const T* x, U* y);

// Converts between element types; bf16 is rounded to nearest even.
template <typename From, typename To>
void MapConvert(const Stream& stream, int64_t n, const From* from, To* to);

// to[i] = codes[i] * scales[i / block] for n numbers (product/block_codes.h); `block` is a multiple
// of 8. Codes are aligned to 8 bytes.
template <typename T>
void DecodeBlocks(const Stream& stream, int64_t n, int64_t block, const int8_t* codes,
                  const float* scales, T* to);

// The rest combines channels-last data [batch, positions, channels] with per-channel numbers of a
// sample (channels.cu.cc).
//
// AddChannels: y = x + v at every position, v: [batch, channels].
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

// Modulate: v [batch, 2 * channels].
template <typename T>
void ModulateValues(const Stream& stream, const ChannelsLast& shape, bool silu, const T* x,
                    const T* v, T* y);
// run_sums: RunSumsSize(shape, 2).
template <typename T>
void ModulateGradient(const Stream& stream, const ChannelsLast& shape, bool silu, const T* x,
                      const T* v, const T* dy, float* run_sums, T* dx, T* dv);

// GatedAdd: gate [batch, channels].
template <typename T>
void AddGated(const Stream& stream, const ChannelsLast& shape, const T* x, const T* gate,
              const T* h, T* y);
// run_sums: RunSumsSize(shape, 1).
template <typename T>
void AddGatedGradient(const Stream& stream, const ChannelsLast& shape, const T* gate, const T* h,
                      const T* dy, float* run_sums, T* dgate, T* dh);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_ELEMENTWISE_H_

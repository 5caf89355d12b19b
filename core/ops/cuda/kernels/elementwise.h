// Kernels that compute each element from the elements at the same index. T: float or Bf16.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_ELEMENTWISE_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_ELEMENTWISE_H_

#include <cstdint>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/ops/elementwise/activation_kind.h"
#include "core/tensor/bf16.h"

namespace dpipe::ops::cuda {

// activation.h, for n elements.
template <typename T>
void MapActivation(const Stream& stream, Activation activation, int64_t n, const T* x, T* y);
template <typename T>
void MapActivationGrad(const Stream& stream, Activation activation, int64_t n, const T* x,
                       const T* dy, T* dx);

// geglu.h: rows of 2 * width (x, dx) and of width (y, dy) elements.
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

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_ELEMENTWISE_H_

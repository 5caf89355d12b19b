// The kernels of a convolution as matrix products. For an image x [batch, height, width, channels]
// and filters of `rows` x `columns`, the windows are a matrix [batch * out_height * out_width, rows
// * columns * channels]. Each row holds the inputs of one output pixel. T: float or Bf16.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_CONVOLUTION_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_CONVOLUTION_H_

#include <cstdint>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/tensor/bf16.h"

namespace dpipe::ops::cuda {

struct WindowShape {
  int64_t batch, height, width, channels;  // of the image
  int64_t rows, columns;                   // of the filters
  int64_t out_height, out_width;
  int64_t stride, pad_top, pad_left;
};

// Gathers the windows of x; zero outside the image.
template <typename T>
void GatherWindows(const Stream& stream, const WindowShape& shape, const T* x, T* windows);

// The inverse, and therefore the gradient: every pixel is the sum of its values in the windows, in
// fp32 and in the order of the filter's elements.
template <typename T>
void SumWindows(const Stream& stream, const WindowShape& shape, const float* windows, T* x);

// Converts filters [outputs, channels, rows, columns] to [outputs, rows, columns, channels],
// rounded to T.
template <typename T>
void ChannelsToLast(const Stream& stream, int64_t outputs, int64_t channels, int64_t elements,
                    const float* from, T* to);
// Adds filters [outputs, rows, columns, channels] to [outputs, channels, rows, columns].
template <typename T>
void AddChannelsLast(const Stream& stream, int64_t outputs, int64_t channels, int64_t elements,
                     const T* from, float* to);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_CONVOLUTION_H_

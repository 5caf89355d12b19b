// Kernels over images [batch, height, width, channels], and over rows of channels. T: float or
// Bf16.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_IMAGES_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_IMAGES_H_

#include <cstdint>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/tensor/bf16.h"

namespace dpipe::ops::cuda {

struct ImageShape {
  int64_t batch, height, width, channels;
};

// `small` is the shape of the image of half the height and width.
//
// Repeats every pixel four times, times `factor`: upsampling's forward, average pooling's gradient.
template <typename T>
void RepeatSquares(const Stream& stream, const ImageShape& small, float factor, const T* x, T* y);
// Sums every 2 x 2 square, times `factor`: upsampling's gradient, average pooling's forward.
template <typename T>
void SumSquares(const Stream& stream, const ImageShape& small, float factor, const T* x, T* y);

// ResizeBilinear.
template <typename T>
void ResizeImage(const Stream& stream, const ImageShape& from, const ImageShape& to, const T* x,
                 T* y);
// dy has the shape `to`, dx the shape `from`.
template <typename T>
void ResizeImageGrad(const Stream& stream, const ImageShape& from, const ImageShape& to,
                     const T* dy, T* dx);

// Copies `width` elements of each of `rows` rows; the strides are between rows. For joins and
// slices.
template <typename T>
void CopyColumns(const Stream& stream, int64_t rows, int64_t width, const T* from,
                 int64_t from_stride, T* to, int64_t to_stride);

// SliceChannels' gradient: writes rows of `channels` elements, with those of `from` at element
// `begin` and zeros elsewhere, plus `added` unless null.
template <typename T>
void PadColumns(const Stream& stream, int64_t rows, int64_t width, const T* from, int64_t begin,
                int64_t channels, const T* added, T* to);

// Patchify: `image` is cut into squares of `size` x `size` pixels, each a row of `patches`.
struct PatchShape {
  ImageShape image;
  int64_t size;
  bool channel_first;
};
template <typename T>
void CutPatches(const Stream& stream, const PatchShape& shape, const T* image, T* patches);
template <typename T>
void JoinPatches(const Stream& stream, const PatchShape& shape, const T* patches, T* image);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_IMAGES_H_

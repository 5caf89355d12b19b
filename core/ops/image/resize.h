// Changes the height and width of images [B, H, W, C], fp32 or bf16.
#ifndef DPIPE_CORE_OPS_IMAGE_RESIZE_H_
#define DPIPE_CORE_OPS_IMAGE_RESIZE_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Doubles an image's height and width by repeating pixels:
//
// x [B, H, W, C] -> [B, 2H, 2W, C], y[h, w] = x[h / 2, w / 2]. fp32 or bf16.
absl::StatusOr<Tensor> UpsampleNearest2xForward(const Tensor& x);

// dy [B, 2H, 2W, C] -> dx [B, H, W, C]: the sum over each 2 x 2 square, in fp32.
absl::StatusOr<Tensor> UpsampleNearest2xInputGrad(const Tensor& dy);

// Halves them by averaging 2 x 2 squares:
//
// x [B, 2H, 2W, C] -> [B, H, W, C], in fp32, rounded once. fp32 or bf16.
absl::StatusOr<Tensor> AveragePool2xForward(const Tensor& x);

// dy [B, H, W, C] -> dx [B, 2H, 2W, C]: each pixel of a square gets a quarter of dy.
absl::StatusOr<Tensor> AveragePool2xInputGrad(const Tensor& dy);

// Bilinear resizing, as in torch.nn.functional.interpolate(mode="bilinear", align_corners=False).
// Pixel centres are at (i + 1/2) / size, and the image is constant beyond the outermost centres.
//
// There is no filter, so shrinking by more than two skips pixels. Meant for enlarging.

// x [B, H, W, C] -> [B, height, width, C], in fp32, rounded once. fp32 or bf16.
absl::StatusOr<Tensor> ResizeBilinearForward(const Tensor& x, int64_t height, int64_t width);

// dy [B, H', W', C] -> dx [B, height, width, C], the shape of the original image. Each pixel's
// weights times dy are summed in fp32 in the order of dy's pixels.
absl::StatusOr<Tensor> ResizeBilinearInputGrad(const Tensor& dy, int64_t height, int64_t width);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_IMAGE_RESIZE_H_

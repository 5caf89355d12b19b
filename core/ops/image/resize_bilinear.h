// Bilinear resizing, as in torch.nn.functional.interpolate(mode="bilinear", align_corners=False).
// Pixel centres are at (i + 1/2) / size, and the image is constant beyond the outermost centres.
//
// There is no filter, so shrinking by more than two skips pixels. Meant for enlarging.
#ifndef DPIPE_CORE_OPS_IMAGE_RESIZE_BILINEAR_H_
#define DPIPE_CORE_OPS_IMAGE_RESIZE_BILINEAR_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// x [B, H, W, C] -> [B, height, width, C], in fp32, rounded once. fp32 or bf16.
absl::StatusOr<Tensor> ResizeBilinearForward(const Tensor& x, int64_t height, int64_t width);

// dy [B, H', W', C] -> dx [B, height, width, C], the shape of the original image. Each pixel's
// weights times dy are summed in fp32 in the order of dy's pixels.
absl::StatusOr<Tensor> ResizeBilinearInputGrad(const Tensor& dy, int64_t height, int64_t width);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_IMAGE_RESIZE_BILINEAR_H_

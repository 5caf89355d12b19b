// Doubles an image's height and width by repeating pixels.
#ifndef DPIPE_CORE_OPS_IMAGE_UPSAMPLE_H_
#define DPIPE_CORE_OPS_IMAGE_UPSAMPLE_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// x [B, H, W, C] -> [B, 2H, 2W, C], y[h, w] = x[h / 2, w / 2]. fp32 or bf16.
absl::StatusOr<Tensor> UpsampleNearest2xForward(const Tensor& x);

// dy [B, 2H, 2W, C] -> dx [B, H, W, C]: the sum over each 2 x 2 square, in fp32.
absl::StatusOr<Tensor> UpsampleNearest2xInputGrad(const Tensor& dy);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_IMAGE_UPSAMPLE_H_

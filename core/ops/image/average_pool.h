// Halves an image's height and width by averaging 2 x 2 squares.
#ifndef DPIPE_CORE_OPS_IMAGE_AVERAGE_POOL_H_
#define DPIPE_CORE_OPS_IMAGE_AVERAGE_POOL_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// x [B, 2H, 2W, C] -> [B, H, W, C], in fp32, rounded once. fp32 or bf16.
absl::StatusOr<Tensor> AveragePool2xForward(const Tensor& x);

// dy [B, H, W, C] -> dx [B, 2H, 2W, C]: each pixel of a square gets a quarter of dy.
absl::StatusOr<Tensor> AveragePool2xInputGrad(const Tensor& dy);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_IMAGE_AVERAGE_POOL_H_

// Scale and shift of every channel by numbers of the sample, alone or followed by SiLU. U-Net
// blocks with "scale_shift" apply the time embedding this way (Dhariwal and Nichol, arXiv
// 2105.05233, "adaptive group normalization"; diffusers ResnetBlock2D).
//
//   h[b, ..., c] = x[b, ..., c] (1 + v[b, c]) + v[b, C + c];   y = h, or silu(h)
#ifndef DPIPE_CORE_OPS_NORM_MODULATE_H_
#define DPIPE_CORE_OPS_NORM_MODULATE_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// x [B, ..., C] and v [B, 2C], both fp32 or both bf16 -> x's shape and dtype.
absl::StatusOr<Tensor> ModulateForward(bool silu, const Tensor& x, const Tensor& v);

struct ModulateGrads {
  Tensor dx;  // x's shape and dtype
  Tensor dv;  // v's shape and dtype, summed over positions in fp32
};

// x and v are the forward pass's; dy has x's shape and dtype.
absl::StatusOr<ModulateGrads> ModulateInputGrad(bool silu, const Tensor& x, const Tensor& v,
                                                const Tensor& dy);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_NORM_MODULATE_H_

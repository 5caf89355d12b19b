// Two-dimensional convolution of NHWC images.
//
//   y[n, p, q, o] = bias[o] + sum_{i, r, s} x[n, p*stride + r - pad_top, q*stride + s - pad_left,
//   i]
//                                           * w[o, i, r, s]
//
// with x taken as zero outside the image, as torch.nn.functional.conv2d defines it [+ addend: a
// residual connection, or what is added to a sample's channels]. Output height
// is (H + pad_top + pad_bottom - R) / stride + 1, rounded down; width likewise.
#ifndef DPIPE_CORE_OPS_CONV2D_H_
#define DPIPE_CORE_OPS_CONV2D_H_

#include "core/base/status.h"
#include "core/ops/weight.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

struct Conv2dParams {
  int stride = 1;
  // Unequal at the VAE's down-sampling, which pads bottom and right only.
  int pad_top = 0;
  int pad_bottom = 0;
  int pad_left = 0;
  int pad_right = 0;
};

// The same padding on all four sides.
Conv2dParams Conv2dSymmetric(int stride, int padding);

// Shape of the output for an x of [N, H, W, I] and a weight of [O, I, R, S]: [N, P, Q, O].
Shape Conv2dOutputShape(const Conv2dParams& params, const Shape& x, const Shape& w);

// x: [N, H, W, I], fp32 or bf16; w: [O, I, R, S]; bias: fp32 [O], or undefined for none; addend: in
// x's element type, of y's shape, or [N, O] and added at every position, or undefined. Returns
// y: [N, P, Q, O] in x's element type. On a GPU the addend saves a pass over memory.
absl::StatusOr<Tensor> Conv2dForward(const Conv2dParams& params, const Tensor& x, const Weight& w,
                                     const Tensor& bias, const Tensor& addend = Tensor());

// dx, of shape `x_shape`, in dy's element type, from dy: [N, P, Q, O].
absl::StatusOr<Tensor> Conv2dInputGrad(const Conv2dParams& params, const Tensor& dy,
                                       const Weight& w, const Shape& x_shape);

// Adds the gradients of w and bias into dw: fp32 [O, I, R, S] and db: fp32 [O]; db may be null. x
// and dy have one element type.
absl::Status Conv2dWeightGrad(const Conv2dParams& params, const Tensor& x, const Tensor& dy,
                              Tensor* dw, Tensor* db);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_CONV2D_H_

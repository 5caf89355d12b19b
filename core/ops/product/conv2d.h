// Two-dimensional convolution of NHWC images.
//
//   y[n, p, q, o] = bias[o]
//                   + sum_{i, r, s} x[n, p*stride + r - pad_top, q*stride + s - pad_left, i]
//                                   * w[o, i, r, s]
//                   [+ addend]
//
// x is zero outside the image, as in torch.nn.functional.conv2d. The addend is a residual
// connection, or numbers that are added to a sample's channels. The output height is (H + pad_top +
// pad_bottom - R) / stride + 1, rounded down; the width is computed the same way.
#ifndef DPIPE_CORE_OPS_PRODUCT_CONV2D_H_
#define DPIPE_CORE_OPS_PRODUCT_CONV2D_H_

#include "core/base/status.h"
#include "core/ops/product/weight.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

struct Conv2dParams {
  int stride = 1;
  // Unequal in the VAE's down-sampling, which pads only at the bottom and on the right.
  int pad_top = 0;
  int pad_bottom = 0;
  int pad_left = 0;
  int pad_right = 0;
};

// Returns params with the same padding on all four sides.
Conv2dParams Conv2dSymmetric(int stride, int padding);

// Returns the output's shape [N, P, Q, O] for x of [N, H, W, I] and a weight of [O, I, R, S].
Shape Conv2dOutputShape(const Conv2dParams& params, const Shape& x, const Shape& w);

// Returns y: [N, P, Q, O] in x's element type. x: [N, H, W, I], fp32 or bf16; w: [O, I, R, S];
// bias: fp32 [O], or undefined for none. The addend has x's element type and y's shape, or [N, O]
// and is added at every position, or is undefined. On a GPU it saves a pass over memory.
absl::StatusOr<Tensor> Conv2dForward(const Conv2dParams& params, const Tensor& x, const Weight& w,
                                     const Tensor& bias, const Tensor& addend = Tensor());

// Returns dx, of shape `x_shape` and dy's element type, from dy: [N, P, Q, O].
absl::StatusOr<Tensor> Conv2dInputGrad(const Conv2dParams& params, const Tensor& dy,
                                       const Weight& w, const Shape& x_shape);

// Adds the gradients of w and bias to dw: fp32 [O, I, R, S] and db: fp32 [O]. db may be null. x and
// dy have one element type.
absl::Status Conv2dWeightGrad(const Conv2dParams& params, const Tensor& x, const Tensor& dy,
                              Tensor* dw, Tensor* db);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_PRODUCT_CONV2D_H_

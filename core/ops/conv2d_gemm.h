// Convolution as a matrix product with the weight as its master lies, [O, I*R*S]: no prepared form.
//
// Where images are small and channels many, a convolution's time goes to moving its weight: 59 MB
// for 1280 channels at 3x3, against 64 pixels of an 8x8 image. Direct convolution first copies it
// into a blocked layout, forward and for the input gradient, and copies the weight's gradient back;
// here each pass streams it once. What it costs instead is a patch of the image a pixel,
// [P*Q, I*R*S] for a few samples at a time: small beside such a weight.
#ifndef DPIPE_CORE_OPS_CONV2D_GEMM_H_
#define DPIPE_CORE_OPS_CONV2D_GEMM_H_

#include "core/ops/conv2d.h"

namespace dpipe::ops::cpu {

// Whether the functions below are the faster ones for these shapes.
bool PrefersGemm(const Conv2dParams& params, const Shape& x, const Shape& w);

// As conv2d.h's, of any sizes; all products are in fp32, with the master unrounded.
absl::StatusOr<Tensor> GemmConv2dForward(const Conv2dParams& params, const Tensor& x,
                                         const Weight& w, const Tensor& bias);
absl::StatusOr<Tensor> GemmConv2dInputGrad(const Conv2dParams& params, const Tensor& dy,
                                           const Weight& w, const Shape& x_shape);
// Without the bias's gradient.
absl::Status GemmConv2dWeightGrad(const Conv2dParams& params, const Tensor& x, const Tensor& dy,
                                  Tensor* dw);

}  // namespace dpipe::ops::cpu

#endif  // DPIPE_CORE_OPS_CONV2D_GEMM_H_

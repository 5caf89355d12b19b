// Convolution as a matrix product with the unprepared master weight, [O, I*R*S].
//
// For small images and many channels, moving the weight takes most of a convolution's time: 59 MB
// for 1280 channels at 3x3, against 64 pixels of an 8x8 image. Direct convolution first copies it
// into a blocked layout, for forward and for the input gradient, and copies the weight's gradient
// back. Here each pass reads it once. The price is one image patch per pixel, [P*Q, I*R*S] for a
// few samples at a time, which is small compared with such a weight.
#ifndef DPIPE_CORE_OPS_PRODUCT_CONV2D_GEMM_H_
#define DPIPE_CORE_OPS_PRODUCT_CONV2D_GEMM_H_

#include "core/ops/product/conv2d.h"

namespace dpipe::ops::cpu {

// True if the functions below are faster for these shapes.
bool PrefersGemm(const Conv2dParams& params, const Shape& x, const Shape& w);

// As in conv2d.h, for any sizes. All products are in fp32, with the unrounded master.
absl::StatusOr<Tensor> GemmConv2dForward(const Conv2dParams& params, const Tensor& x,
                                         const Weight& w, const Tensor& bias);
absl::StatusOr<Tensor> GemmConv2dInputGrad(const Conv2dParams& params, const Tensor& dy,
                                           const Weight& w, const Shape& x_shape);
// Excludes the bias's gradient.
absl::Status GemmConv2dWeightGrad(const Conv2dParams& params, const Tensor& x, const Tensor& dy,
                                  Tensor* dw);

}  // namespace dpipe::ops::cpu

#endif  // DPIPE_CORE_OPS_PRODUCT_CONV2D_GEMM_H_

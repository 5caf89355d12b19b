// The implementations behind conv2d.cc: conv2d.h's functions without the checks. Those for CPUs
// have no addend.
#ifndef DPIPE_CORE_OPS_PRODUCT_CONV2D_KERNELS_H_
#define DPIPE_CORE_OPS_PRODUCT_CONV2D_KERNELS_H_

#include "core/ops/product/conv2d.h"

namespace dpipe::ops {
namespace ref {
Tensor Conv2dForward(const Conv2dParams& params, const Tensor& x, const Weight& w,
                     const Tensor& bias, const Tensor& addend);
Tensor Conv2dInputGrad(const Conv2dParams& params, const Tensor& dy, const Weight& w,
                       const Shape& x_shape);
void Conv2dWeightGrad(const Conv2dParams& params, const Tensor& x, const Tensor& dy, Tensor* dw,
                      Tensor* db);
}  // namespace ref
namespace cpu {
absl::StatusOr<Tensor> Conv2dForward(const Conv2dParams& params, const Tensor& x, const Weight& w,
                                     const Tensor& bias);
absl::StatusOr<Tensor> Conv2dInputGrad(const Conv2dParams& params, const Tensor& dy,
                                       const Weight& w, const Shape& x_shape);
absl::Status Conv2dWeightGrad(const Conv2dParams& params, const Tensor& x, const Tensor& dy,
                              Tensor* dw, Tensor* db);
}  // namespace cpu
namespace cuda {
absl::StatusOr<Tensor> Conv2dForward(const Conv2dParams& params, const Tensor& x, const Weight& w,
                                     const Tensor& bias, const Tensor& addend);
absl::StatusOr<Tensor> Conv2dInputGrad(const Conv2dParams& params, const Tensor& dy,
                                       const Weight& w, const Shape& x_shape);
absl::Status Conv2dWeightGrad(const Conv2dParams& params, const Tensor& x, const Tensor& dy,
                              Tensor* dw, Tensor* db);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_PRODUCT_CONV2D_KERNELS_H_

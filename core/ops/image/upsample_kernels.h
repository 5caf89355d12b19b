// The implementations behind upsample.cc.
#ifndef DPIPE_CORE_OPS_IMAGE_UPSAMPLE_KERNELS_H_
#define DPIPE_CORE_OPS_IMAGE_UPSAMPLE_KERNELS_H_

#include "core/tensor/tensor.h"

namespace dpipe::ops {
namespace ref {
void UpsampleNearest2xForward(const Tensor& x, Tensor* y);
void UpsampleNearest2xInputGrad(const Tensor& dy, Tensor* dx);
}  // namespace ref
namespace cpu {
void UpsampleNearest2xForward(const Tensor& x, Tensor* y);
void UpsampleNearest2xInputGrad(const Tensor& dy, Tensor* dx);
}  // namespace cpu
namespace cuda {
void UpsampleNearest2xForward(const Tensor& x, Tensor* y);
void UpsampleNearest2xInputGrad(const Tensor& dy, Tensor* dx);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_IMAGE_UPSAMPLE_KERNELS_H_

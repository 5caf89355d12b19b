// The implementations behind average_pool.cc.
#ifndef DPIPE_CORE_OPS_IMAGE_AVERAGE_POOL_KERNELS_H_
#define DPIPE_CORE_OPS_IMAGE_AVERAGE_POOL_KERNELS_H_

#include "core/tensor/tensor.h"

namespace dpipe::ops {
namespace ref {
void AveragePool2xForward(const Tensor& x, Tensor* y);
void AveragePool2xInputGrad(const Tensor& dy, Tensor* dx);
}  // namespace ref
namespace cpu {
void AveragePool2xForward(const Tensor& x, Tensor* y);
void AveragePool2xInputGrad(const Tensor& dy, Tensor* dx);
}  // namespace cpu
namespace cuda {
void AveragePool2xForward(const Tensor& x, Tensor* y);
void AveragePool2xInputGrad(const Tensor& dy, Tensor* dx);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_IMAGE_AVERAGE_POOL_KERNELS_H_

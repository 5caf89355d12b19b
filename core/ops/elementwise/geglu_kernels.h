// The implementations behind geglu.cc. Rows are runs of 2C (x, dx) or C (y, dy) elements.
#ifndef DPIPE_CORE_OPS_ELEMENTWISE_GEGLU_KERNELS_H_
#define DPIPE_CORE_OPS_ELEMENTWISE_GEGLU_KERNELS_H_

#include "core/tensor/tensor.h"

namespace dpipe::ops {
namespace ref {
void GegluForward(const Tensor& x, Tensor* y);
void GegluInputGrad(const Tensor& x, const Tensor& dy, Tensor* dx);
}  // namespace ref
namespace cpu {
void GegluForward(const Tensor& x, Tensor* y);
void GegluInputGrad(const Tensor& x, const Tensor& dy, Tensor* dx);
}  // namespace cpu
namespace cuda {
void GegluForward(const Tensor& x, Tensor* y);
void GegluInputGrad(const Tensor& x, const Tensor& dy, Tensor* dx);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ELEMENTWISE_GEGLU_KERNELS_H_

// The implementations behind activation.cc. y and dx have x's shape and dtype.
#ifndef DPIPE_CORE_OPS_ELEMENTWISE_ACTIVATION_KERNELS_H_
#define DPIPE_CORE_OPS_ELEMENTWISE_ACTIVATION_KERNELS_H_

#include "core/ops/elementwise/activation.h"

namespace dpipe::ops {
namespace ref {
void ActivationForward(Activation activation, const Tensor& x, Tensor* y);
void ActivationInputGrad(Activation activation, const Tensor& x, const Tensor& dy, Tensor* dx);
}  // namespace ref
namespace cpu {
void ActivationForward(Activation activation, const Tensor& x, Tensor* y);
void ActivationInputGrad(Activation activation, const Tensor& x, const Tensor& dy, Tensor* dx);
}  // namespace cpu
namespace cuda {
void ActivationForward(Activation activation, const Tensor& x, Tensor* y);
void ActivationInputGrad(Activation activation, const Tensor& x, const Tensor& dy, Tensor* dx);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ELEMENTWISE_ACTIVATION_KERNELS_H_

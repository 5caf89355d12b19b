// The implementations behind gated_add.cc.
#ifndef DPIPE_CORE_OPS_ELEMENTWISE_GATED_ADD_KERNELS_H_
#define DPIPE_CORE_OPS_ELEMENTWISE_GATED_ADD_KERNELS_H_

#include "core/ops/elementwise/gated_add.h"

namespace dpipe::ops {
namespace ref {
void GatedAddForward(const Tensor& x, const Tensor& gate, const Tensor& h, Tensor* y);
void GatedAddInputGrad(const Tensor& gate, const Tensor& h, const Tensor& dy, GatedAddGrads* grads);
}  // namespace ref
namespace cpu {
void GatedAddForward(const Tensor& x, const Tensor& gate, const Tensor& h, Tensor* y);
void GatedAddInputGrad(const Tensor& gate, const Tensor& h, const Tensor& dy, GatedAddGrads* grads);
}  // namespace cpu
namespace cuda {
void GatedAddForward(const Tensor& x, const Tensor& gate, const Tensor& h, Tensor* y);
void GatedAddInputGrad(const Tensor& gate, const Tensor& h, const Tensor& dy, GatedAddGrads* grads);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ELEMENTWISE_GATED_ADD_KERNELS_H_

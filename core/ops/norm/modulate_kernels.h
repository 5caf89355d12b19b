// The implementations behind modulate.cc.
#ifndef DPIPE_CORE_OPS_NORM_MODULATE_KERNELS_H_
#define DPIPE_CORE_OPS_NORM_MODULATE_KERNELS_H_

#include "core/tensor/tensor.h"

namespace dpipe::ops {
namespace ref {
void ModulateForward(bool silu, const Tensor& x, const Tensor& v, Tensor* y);
void ModulateInputGrad(bool silu, const Tensor& x, const Tensor& v, const Tensor& dy, Tensor* dx,
                       Tensor* dv);
}  // namespace ref
namespace cpu {
void ModulateForward(bool silu, const Tensor& x, const Tensor& v, Tensor* y);
void ModulateInputGrad(bool silu, const Tensor& x, const Tensor& v, const Tensor& dy, Tensor* dx,
                       Tensor* dv);
}  // namespace cpu
namespace cuda {
void ModulateForward(bool silu, const Tensor& x, const Tensor& v, Tensor* y);
void ModulateInputGrad(bool silu, const Tensor& x, const Tensor& v, const Tensor& dy, Tensor* dx,
                       Tensor* dv);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_NORM_MODULATE_KERNELS_H_

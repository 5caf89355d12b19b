// The implementations behind multiply.cc.
#ifndef DPIPE_CORE_OPS_ELEMENTWISE_MULTIPLY_KERNELS_H_
#define DPIPE_CORE_OPS_ELEMENTWISE_MULTIPLY_KERNELS_H_

#include "core/tensor/tensor.h"

namespace dpipe::ops {
namespace ref {
void Multiply(const Tensor& a, const Tensor& b, Tensor* y);
}  // namespace ref
namespace cpu {
void Multiply(const Tensor& a, const Tensor& b, Tensor* y);
}  // namespace cpu
namespace cuda {
void Multiply(const Tensor& a, const Tensor& b, Tensor* y);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ELEMENTWISE_MULTIPLY_KERNELS_H_

// The implementations behind add.cc.
#ifndef DPIPE_CORE_OPS_ELEMENTWISE_ADD_KERNELS_H_
#define DPIPE_CORE_OPS_ELEMENTWISE_ADD_KERNELS_H_

#include "core/tensor/tensor.h"

namespace dpipe::ops {
namespace ref {
void Add(const Tensor& a, const Tensor& b, Tensor* y);
void AddChannels(const Tensor& x, const Tensor& v, Tensor* y);
void AddChannelsVectorGrad(const Tensor& dy, Tensor* dv);
void Scale(float factor, const Tensor& x, Tensor* y);
void Axpy(float factor, const Tensor& x, Tensor* y);
}  // namespace ref
namespace cpu {
void Add(const Tensor& a, const Tensor& b, Tensor* y);
void AddChannels(const Tensor& x, const Tensor& v, Tensor* y);
void AddChannelsVectorGrad(const Tensor& dy, Tensor* dv);
void Scale(float factor, const Tensor& x, Tensor* y);
void Axpy(float factor, const Tensor& x, Tensor* y);
}  // namespace cpu
namespace cuda {
void Add(const Tensor& a, const Tensor& b, Tensor* y);
void AddChannels(const Tensor& x, const Tensor& v, Tensor* y);
void AddChannelsVectorGrad(const Tensor& dy, Tensor* dv);
void Scale(float factor, const Tensor& x, Tensor* y);
void Axpy(float factor, const Tensor& x, Tensor* y);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ELEMENTWISE_ADD_KERNELS_H_

// The implementations behind resize_bilinear.cc.
#ifndef DPIPE_CORE_OPS_IMAGE_RESIZE_BILINEAR_KERNELS_H_
#define DPIPE_CORE_OPS_IMAGE_RESIZE_BILINEAR_KERNELS_H_

#include "core/tensor/tensor.h"

namespace dpipe::ops {
namespace ref {
void ResizeBilinearForward(const Tensor& x, Tensor* y);
void ResizeBilinearInputGrad(const Tensor& dy, Tensor* dx);
}  // namespace ref
namespace cpu {
void ResizeBilinearForward(const Tensor& x, Tensor* y);
void ResizeBilinearInputGrad(const Tensor& dy, Tensor* dx);
}  // namespace cpu
namespace cuda {
void ResizeBilinearForward(const Tensor& x, Tensor* y);
void ResizeBilinearInputGrad(const Tensor& dy, Tensor* dx);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_IMAGE_RESIZE_BILINEAR_KERNELS_H_

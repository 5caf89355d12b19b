// The implementations behind resize.cc.
#ifndef DPIPE_CORE_OPS_IMAGE_RESIZE_KERNELS_H_
#define DPIPE_CORE_OPS_IMAGE_RESIZE_KERNELS_H_

#include "core/ops/image/resize.h"

namespace dpipe::ops {

struct ResizeKernels {
  void (*upsample_nearest2x_forward)(const Tensor& x, Tensor* y);
  void (*upsample_nearest2x_input_grad)(const Tensor& dy, Tensor* dx);
  void (*average_pool2x_forward)(const Tensor& x, Tensor* y);
  void (*average_pool2x_input_grad)(const Tensor& dy, Tensor* dx);
  void (*resize_bilinear_forward)(const Tensor& x, Tensor* y);
  void (*resize_bilinear_input_grad)(const Tensor& dy, Tensor* dx);

  static const ResizeKernels kReference, kCpu, kCuda;
};

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_IMAGE_RESIZE_KERNELS_H_

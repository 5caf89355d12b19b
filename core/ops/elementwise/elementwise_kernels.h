// The implementations behind elementwise.cc. Outputs have the shapes of elementwise.h.
#ifndef DPIPE_CORE_OPS_ELEMENTWISE_ELEMENTWISE_KERNELS_H_
#define DPIPE_CORE_OPS_ELEMENTWISE_ELEMENTWISE_KERNELS_H_

#include "core/ops/elementwise/elementwise.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

struct ElementwiseKernels {
  void (*activation_forward)(Activation activation, const Tensor& x, Tensor* y);
  void (*activation_input_grad)(Activation activation, const Tensor& x, const Tensor& dy,
                                Tensor* dx);
  void (*geglu_forward)(const Tensor& x, Tensor* y);
  void (*geglu_input_grad)(const Tensor& x, const Tensor& dy, Tensor* dx);
  void (*add)(const Tensor& a, const Tensor& b, Tensor* y);
  void (*add_channels)(const Tensor& x, const Tensor& v, Tensor* y);
  void (*add_channels_vector_grad)(const Tensor& dy, Tensor* dv);
  void (*scale)(float factor, const Tensor& x, Tensor* y);
  void (*axpy)(float factor, const Tensor& x, Tensor* y);
  void (*gated_add_forward)(const Tensor& x, const Tensor& gate, const Tensor& h, Tensor* y);
  void (*gated_add_input_grad)(const Tensor& gate, const Tensor& h, const Tensor& dy,
                               GatedAddGrads* grads);
  void (*multiply)(const Tensor& a, const Tensor& b, Tensor* y);

  static const ElementwiseKernels kReference, kCpu, kCuda;
};

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ELEMENTWISE_ELEMENTWISE_KERNELS_H_

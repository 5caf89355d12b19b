// The implementations behind diffusion.cc. z has x's shape.
#ifndef DPIPE_CORE_OPS_DIFFUSION_DIFFUSION_KERNELS_H_
#define DPIPE_CORE_OPS_DIFFUSION_DIFFUSION_KERNELS_H_

#include <vector>

#include "core/ops/diffusion/diffusion.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

struct DiffusionKernels {
  void (*combine)(absl::Span<const float> x_weights, const Tensor& x,
                  absl::Span<const float> y_weights, const Tensor& y, Tensor* z);
  // The same, with weights on the device.
  void (*combine_by_tensors)(const Tensor& x_weights, const Tensor& x, const Tensor& y_weights,
                             const Tensor& y, Tensor* z);
  void (*mse_loss_forward)(const Tensor& prediction, const Tensor& target, const Tensor& weights,
                           Tensor* loss);
  void (*mse_loss_input_grad)(const Tensor& prediction, const Tensor& target, const Tensor& weights,
                              const Tensor& d_loss, Tensor* dp);

  static const DiffusionKernels kReference, kCpu, kCuda;
};

// For host devices: the factor of each sample's squared differences, weights[b] / (elements of a
// sample), and that of its differences in the gradient.
std::vector<double> MseFactors(const Tensor& prediction, const Tensor& weights);
std::vector<double> MseGradFactors(const Tensor& prediction, const Tensor& weights,
                                   const Tensor& d_loss);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_DIFFUSION_DIFFUSION_KERNELS_H_

// Single elements of a convolution, in double. If the reference would take minutes for all
// elements, a sample of them is as informative.
#ifndef DPIPE_CORE_OPS_CUDA_DIRECT_CONVOLUTION_H_
#define DPIPE_CORE_OPS_CUDA_DIRECT_CONVOLUTION_H_

#include <cstdint>
#include <vector>

#include "core/ops/product/conv2d.h"

namespace dpipe::ops::cuda {

class DirectConvolution {
 public:
  // Tensors are on the host, with the shapes of conv2d.h. If x is bf16, the fp32 weights are first
  // rounded to bf16, as in ops.
  DirectConvolution(const Conv2dParams& params, const Tensor& x, const Tensor& w, const Tensor& dy);

  // Return element `index`, in memory order, of y without bias and addend; dx; the addition to dw;
  // the addition to db. The time of each is linear in the terms of its sum.
  double Y(int64_t index) const;
  double Dx(int64_t index) const;
  double Dw(int64_t index) const;
  double Db(int64_t index) const;

 private:
  // Returns x at a position that may be outside the image.
  double PaddedX(int64_t n, int64_t h, int64_t w, int64_t i) const;

  const Conv2dParams params_;
  const Shape x_shape_, w_shape_, y_shape_;
  std::vector<double> x_, w_, dy_;
};

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_DIRECT_CONVOLUTION_H_

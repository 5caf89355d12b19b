// Single elements of what a convolution computes, in double: where the reference would take minutes
// for all of them, a sample of the elements shows as much.
#ifndef DPIPE_CORE_OPS_CUDA_DIRECT_CONVOLUTION_H_
#define DPIPE_CORE_OPS_CUDA_DIRECT_CONVOLUTION_H_

#include <cstdint>
#include <vector>

#include "core/ops/conv2d.h"

namespace dpipe::ops::cuda {

class DirectConvolution {
 public:
  // Tensors of the host, shaped as conv2d.h says. Where x is bf16 the weights, fp32, are rounded to
  // it first, as ops do.
  DirectConvolution(const Conv2dParams& params, const Tensor& x, const Tensor& w, const Tensor& dy);

  // Element `index` of, in the order of memory: y without bias and addend; dx; what is added to dw;
  // what is added to db. Each takes as long as its sum is.
  double Y(int64_t index) const;
  double Dx(int64_t index) const;
  double Dw(int64_t index) const;
  double Db(int64_t index) const;

 private:
  // x at a position that may lie outside the image.
  double PaddedX(int64_t n, int64_t h, int64_t w, int64_t i) const;

  const Conv2dParams params_;
  const Shape x_shape_, w_shape_, y_shape_;
  std::vector<double> x_, w_, dy_;
};

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_DIRECT_CONVOLUTION_H_

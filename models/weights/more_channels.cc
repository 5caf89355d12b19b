#include "models/weights/more_channels.h"

#include <algorithm>

#include "core/base/check.h"

namespace dpipe::models {

Tensor WithMoreInputChannels(const Tensor& weight, int64_t in_channels) {
  DPIPE_CHECK_EQ(weight.shape().rank(), 4);
  DPIPE_CHECK_LE(weight.dim(1), in_channels);
  Tensor wide = Tensor::Zeros(
      weight.device(), {weight.dim(0), in_channels, weight.dim(2), weight.dim(3)}, DType::kF32);
  const int64_t row = weight.num_elements() / weight.dim(0);
  const int64_t wide_row = wide.num_elements() / wide.dim(0);
  for (int64_t o = 0; o < weight.dim(0); ++o) {
    std::copy_n(weight.data<float>() + o * row, row, wide.data<float>() + o * wide_row);
  }
  return wide;
}

}  // namespace dpipe::models

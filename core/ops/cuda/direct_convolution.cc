#include "core/ops/cuda/direct_convolution.h"

#include "core/ops/testing/op_testing.h"

namespace dpipe::ops::cuda {
namespace {

// Returns the index [a, b, c, d] of an element of a four-dimensional tensor.
struct Place {
  int64_t a, b, c, d;
};

Place PlaceOf(int64_t index, const Shape& shape) {
  return {index / (shape[1] * shape[2] * shape[3]), index / (shape[2] * shape[3]) % shape[1],
          index / shape[3] % shape[2], index % shape[3]};
}

int64_t IndexOf(const Place& place, const Shape& shape) {
  return ((place.a * shape[1] + place.b) * shape[2] + place.c) * shape[3] + place.d;
}

}  // namespace

DirectConvolution::DirectConvolution(const Conv2dParams& params, const Tensor& x, const Tensor& w,
                                     const Tensor& dy)
    : params_(params),
      x_shape_(x.shape()),
      w_shape_(w.shape()),
      y_shape_(dy.shape()),
      x_(Values(x)),
      w_(Values(x.dtype() == DType::kBf16 ? w.To(DType::kBf16) : w)),
      dy_(Values(dy)) {}

double DirectConvolution::PaddedX(int64_t n, int64_t h, int64_t w, int64_t i) const {
  if (h < 0 || h >= x_shape_[1] || w < 0 || w >= x_shape_[2]) return 0;
  return x_[IndexOf({n, h, w, i}, x_shape_)];
}

double DirectConvolution::Y(int64_t index) const {
  const auto [n, p, q, o] = PlaceOf(index, y_shape_);
  double sum = 0;
  for (int64_t i = 0; i < w_shape_[1]; ++i) {
    for (int64_t r = 0; r < w_shape_[2]; ++r) {
      for (int64_t s = 0; s < w_shape_[3]; ++s) {
        sum += w_[IndexOf({o, i, r, s}, w_shape_)] *
               PaddedX(n, p * params_.stride + r - params_.pad_top,
                       q * params_.stride + s - params_.pad_left, i);
      }
    }
  }
  return sum;
}

double DirectConvolution::Dx(int64_t index) const {
  const auto [n, h, w, i] = PlaceOf(index, x_shape_);
  double sum = 0;
  for (int64_t r = 0; r < w_shape_[2]; ++r) {
    for (int64_t s = 0; s < w_shape_[3]; ++s) {
      const int64_t row = h + params_.pad_top - r, column = w + params_.pad_left - s;
      if (row < 0 || column < 0 || row % params_.stride != 0 || column % params_.stride != 0) {
        continue;
      }
      const int64_t p = row / params_.stride, q = column / params_.stride;
      if (p >= y_shape_[1] || q >= y_shape_[2]) continue;
      for (int64_t o = 0; o < w_shape_[0]; ++o) {
        sum += w_[IndexOf({o, i, r, s}, w_shape_)] * dy_[IndexOf({n, p, q, o}, y_shape_)];
      }
    }
  }
  return sum;
}

double DirectConvolution::Dw(int64_t index) const {
  const auto [o, i, r, s] = PlaceOf(index, w_shape_);
  double sum = 0;
  for (int64_t n = 0; n < y_shape_[0]; ++n) {
    for (int64_t p = 0; p < y_shape_[1]; ++p) {
      for (int64_t q = 0; q < y_shape_[2]; ++q) {
        sum += dy_[IndexOf({n, p, q, o}, y_shape_)] *
               PaddedX(n, p * params_.stride + r - params_.pad_top,
                       q * params_.stride + s - params_.pad_left, i);
      }
    }
  }
  return sum;
}

double DirectConvolution::Db(int64_t index) const {
  double sum = 0;
  for (size_t i = index; i < dy_.size(); i += y_shape_[3]) sum += dy_[i];
  return sum;
}

}  // namespace dpipe::ops::cuda

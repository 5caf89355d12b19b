#include <vector>

#include "core/ops/product/conv2d_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {
namespace {

// Calls f(index in y, index in x, index in w) for every product of the definition.
template <typename F>
void ForEachProduct(const Conv2dParams& params, const Shape& x, const Shape& w, const Shape& y,
                    const F& f) {
  for (int64_t n = 0; n < y[0]; ++n) {
    for (int64_t p = 0; p < y[1]; ++p) {
      for (int64_t q = 0; q < y[2]; ++q) {
        for (int64_t r = 0; r < w[2]; ++r) {
          const int64_t h = p * params.stride + r - params.pad_top;
          if (h < 0 || h >= x[1]) continue;
          for (int64_t s = 0; s < w[3]; ++s) {
            const int64_t v = q * params.stride + s - params.pad_left;
            if (v < 0 || v >= x[2]) continue;
            for (int64_t o = 0; o < w[0]; ++o) {
              for (int64_t i = 0; i < w[1]; ++i) {
                f(((n * y[1] + p) * y[2] + q) * y[3] + o, ((n * x[1] + h) * x[2] + v) * x[3] + i,
                  ((o * w[1] + i) * w[2] + r) * w[3] + s);
              }
            }
          }
        }
      }
    }
  }
}

Tensor FromDoubles(const std::shared_ptr<Device>& device, const Shape& shape, DType dtype,
                   const std::vector<double>& values) {
  Tensor t = Tensor::Empty(device, shape, dtype);
  for (int64_t i = 0; i < t.num_elements(); ++i) Put(t, i, values[i]);
  return t;
}

}  // namespace

Tensor Conv2dForward(const Conv2dParams& params, const Tensor& x, const Weight& weight,
                     const Tensor& bias, const Tensor& addend) {
  const Tensor w = weight.As(x.dtype());
  const Shape shape = Conv2dOutputShape(params, x.shape(), w.shape());
  std::vector<double> y(shape.num_elements(), 0.0);
  if (bias.defined()) {
    for (size_t i = 0; i < y.size(); ++i) y[i] = Get(bias, i % shape[3]);
  }
  if (addend.defined()) {
    const bool of_sample = addend.shape() != shape;
    const int64_t sample = shape.num_elements() / shape[0];
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      y[i] += Get(addend, of_sample ? i / sample * shape[3] + i % shape[3] : i);
    }
  }
  ForEachProduct(params, x.shape(), w.shape(), shape,
                 [&](int64_t yi, int64_t xi, int64_t wi) { y[yi] += Get(x, xi) * Get(w, wi); });
  return FromDoubles(x.device(), shape, x.dtype(), y);
}

Tensor Conv2dInputGrad(const Conv2dParams& params, const Tensor& dy, const Weight& weight,
                       const Shape& x_shape) {
  const Tensor w = weight.As(dy.dtype());
  std::vector<double> dx(x_shape.num_elements(), 0.0);
  ForEachProduct(params, x_shape, w.shape(), dy.shape(),
                 [&](int64_t yi, int64_t xi, int64_t wi) { dx[xi] += Get(dy, yi) * Get(w, wi); });
  return FromDoubles(dy.device(), x_shape, dy.dtype(), dx);
}

void Conv2dWeightGrad(const Conv2dParams& params, const Tensor& x, const Tensor& dy, Tensor* dw,
                      Tensor* db) {
  std::vector<double> sums(dw->num_elements(), 0.0);
  ForEachProduct(params, x.shape(), dw->shape(), dy.shape(),
                 [&](int64_t yi, int64_t xi, int64_t wi) { sums[wi] += Get(dy, yi) * Get(x, xi); });
  for (size_t i = 0; i < sums.size(); ++i) Put(*dw, i, Get(*dw, i) + sums[i]);
  if (db == nullptr) return;
  std::vector<double> bias_sums(dy.dim(3), 0.0);
  for (int64_t i = 0; i < dy.num_elements(); ++i) bias_sums[i % dy.dim(3)] += Get(dy, i);
  for (size_t o = 0; o < bias_sums.size(); ++o) Put(*db, o, Get(*db, o) + bias_sums[o]);
}

}  // namespace dpipe::ops::ref

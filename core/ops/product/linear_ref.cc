#include "core/ops/product/linear_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {
namespace {

Shape WithLast(Shape shape, int64_t size) {
  shape.Set(-1, size);
  return shape;
}

}  // namespace

Tensor LinearForward(const Tensor& x, const Weight& weight, const Tensor& bias,
                     const Tensor& addend) {
  const Tensor w = weight.As(x.dtype());
  const int64_t in = w.dim(1), out = w.dim(0), rows = x.num_elements() / in;
  Tensor y = Tensor::Empty(x.device(), WithLast(x.shape(), out), x.dtype());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = bias.defined() ? Get(bias, o) : 0;
      if (addend.defined()) sum += Get(addend, r * out + o);
      for (int64_t i = 0; i < in; ++i) sum += Get(x, r * in + i) * Get(w, o * in + i);
      Put(y, r * out + o, sum);
    }
  }
  return y;
}

Tensor LinearInputGrad(const Tensor& dy, const Weight& weight, const Tensor& addend) {
  const Tensor w = weight.As(dy.dtype());
  const int64_t in = w.dim(1), out = w.dim(0), rows = dy.num_elements() / out;
  Tensor dx = Tensor::Empty(dy.device(), WithLast(dy.shape(), in), dy.dtype());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < in; ++i) {
      double sum = addend.defined() ? Get(addend, r * in + i) : 0;
      for (int64_t o = 0; o < out; ++o) sum += Get(dy, r * out + o) * Get(w, o * in + i);
      Put(dx, r * in + i, sum);
    }
  }
  return dx;
}

void LinearWeightGrad(const Tensor& x, const Tensor& dy, Tensor* dw, Tensor* db) {
  const int64_t in = dw->dim(1), out = dw->dim(0), rows = x.num_elements() / in;
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i) {
      double sum = Get(*dw, o * in + i);
      for (int64_t r = 0; r < rows; ++r) sum += Get(dy, r * out + o) * Get(x, r * in + i);
      Put(*dw, o * in + i, sum);
    }
    if (db == nullptr) continue;
    double sum = Get(*db, o);
    for (int64_t r = 0; r < rows; ++r) sum += Get(dy, r * out + o);
    Put(*db, o, sum);
  }
}

}  // namespace dpipe::ops::ref

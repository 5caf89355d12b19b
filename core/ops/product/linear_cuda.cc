#include "core/ops/cuda/matmul.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/product/bias_grad.h"
#include "core/ops/product/linear_kernels.h"

namespace dpipe::ops::cuda {
namespace {

Tensor WithLast(const Tensor& like, int64_t size) {
  Shape shape = like.shape();
  shape.Set(-1, size);
  return Tensor::Empty(like.device(), shape, like.dtype());
}

// Returns [out, in] or [out, in, 1, 1] as [out, in].
Tensor Flat(const Tensor& w) { return w.Reshape({w.dim(0), w.dim(1)}); }

}  // namespace

absl::StatusOr<Tensor> LinearForward(const Tensor& x, const Weight& weight, const Tensor& bias,
                                     const Tensor& addend) {
  const Tensor w = Flat(weight.As(x.dtype()));
  Tensor y = WithLast(x, w.dim(0));
  Product product = {x.num_elements() / x.dim(-1), w.dim(0), w.dim(1)};
  product.a = RowsOf(x);
  product.b = Transposed(RowsOf(w));
  product.d = RowsOf(y);
  if (bias.defined()) product.bias = bias.data<float>();
  if (addend.defined()) product.c = RowsOf(addend);
  DPIPE_RETURN_IF_ERROR(Multiply(x.device(), product));
  return y;
}

absl::StatusOr<Tensor> LinearInputGrad(const Tensor& dy, const Weight& weight,
                                       const Tensor& addend) {
  const Tensor w = Flat(weight.As(dy.dtype()));
  Tensor dx = WithLast(dy, w.dim(1));
  Product product = {dy.num_elements() / dy.dim(-1), w.dim(1), w.dim(0)};
  product.a = RowsOf(dy);
  product.b = RowsOf(w);
  product.d = RowsOf(dx);
  if (addend.defined()) product.c = RowsOf(addend);
  DPIPE_RETURN_IF_ERROR(Multiply(dy.device(), product));
  return dx;
}

absl::Status LinearWeightGrad(const Tensor& x, const Tensor& dy, Tensor* dw, Tensor* db) {
  Product product = {dw->dim(0), dw->dim(1), x.num_elements() / x.dim(-1)};
  product.a = Transposed(RowsOf(dy));
  product.b = RowsOf(x);
  product.d = RowsOf(Flat(*dw));
  product.c = product.d;
  if (db == nullptr) return Multiply(x.device(), product);
  if (ShouldSumRows(product.m, product.n, product.k, MultiprocessorsOf(*x.device()))) {
    const Tensor sums = Tensor::Empty(x.device(), db->shape(), DType::kF32);
    Product with_sums = product;
    with_sums.a_sums = sums.data<float>();
    const absl::Status done = Multiply(x.device(), with_sums);
    if (done.ok()) return Axpy(1, sums, db);
    if (!absl::IsUnimplemented(done)) return done;
  }
  AddBiasGrad(dy, db);
  return Multiply(x.device(), product);
}

}  // namespace dpipe::ops::cuda

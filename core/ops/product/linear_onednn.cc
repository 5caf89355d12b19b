#include <algorithm>

#include "core/ops/onednn/onednn.h"
#include "core/ops/product/bias_grad.h"
#include "core/ops/product/fixed_order_product.h"
#include "core/ops/product/linear_kernels.h"
#include "core/ops/support/convert.h"

namespace dpipe::ops::cpu {
namespace {

using onednn::Desc;
using onednn::Dims;
using onednn::Tag;

// to [rows, n] = from [rows, k] B (+ bias), where B [k, n] comes from the weight [out, in]. It is
// the transpose for forward (k = in), and the weight itself for the input gradient (k = out).
struct Product {
  int64_t rows, k, n;
  bool forward;
  bool bias;
  DType dtype;
};

// Maximum elements of a packed weight: 1 MiB, half of an L2 cache.
constexpr int64_t kMaxPacked = 262144;

struct ProductEntry {
  onednn::Primitive primitive;
  onednn::WeightForm form;
};

ProductEntry MakeProduct(const Product& p) {
  const auto type = onednn::ToDataType(p.dtype);
  const auto f32 = dnnl::memory::data_type::f32;
  const Desc from(Dims{p.rows, p.k}, type, Tag::ab), to(Dims{p.rows, p.n}, type, Tag::ab);
  const Desc plain(Dims{p.k, p.n}, f32, p.forward ? Tag::ba : Tag::ab);
  // In fp32 products read the master in place, at full speed. Forward gains from packing only if
  // the weight stays in the cache; for larger ones, packing moves more bytes than it saves.
  const bool pack = p.dtype != DType::kF32 || (p.forward && p.k * p.n <= kMaxPacked);
  const Desc weights = pack ? Desc(Dims{p.k, p.n}, type, Tag::any) : plain;
  const Desc bias = p.bias ? Desc(Dims{1, p.n}, f32, Tag::ab) : Desc();
  const auto desc =
      onednn::Describe<dnnl::matmul>(onednn::UserScratchpad(), from, weights, bias, to);
  std::vector<onednn::Primitive::Argument> arguments = {
      {DNNL_ARG_SRC, from}, {DNNL_ARG_WEIGHTS, desc.weights_desc()}, {DNNL_ARG_DST, to}};
  if (p.bias) arguments.push_back({DNNL_ARG_BIAS, bias});
  return {onednn::Primitive("linear", dnnl::matmul(desc), desc.scratchpad_desc(), arguments),
          onednn::WeightForm(plain, desc.weights_desc())};
}

absl::Status Multiply(const Product& p, const std::shared_ptr<Device>& device, const void* from,
                      const Weight& w, const Tensor& bias, void* to) {
  if (p.dtype == DType::kF32 && onednn::NeedsFixedOrder()) {
    FixedOrderProduct(*device, /*transpose_b=*/p.forward, p.rows, p.n, p.k,
                      static_cast<const float*>(from), p.k, w.master().data<float>(),
                      p.forward ? p.k : p.n, p.bias ? bias.data<float>() : nullptr,
                      static_cast<float*>(to), p.n);
    return absl::OkStatus();
  }
  if (!p.forward && p.dtype == DType::kF32 && p.k * p.n > kMaxPacked) {
    // The matmul primitive takes up to twice as long for 64 rows of 5120.
    return onednn::Gemm(false, false, p.rows, p.n, p.k, static_cast<const float*>(from), p.k,
                        w.master().data<float>(), p.n, 0.0f, static_cast<float*>(to), p.n);
  }
  thread_local onednn::PrimitiveCache<ProductEntry> cache;
  const onednn::Key key = {p.rows, p.k, p.n, p.forward, p.bias, static_cast<int64_t>(p.dtype)};
  DPIPE_ASSIGN_OR_RETURN(const ProductEntry* entry,
                         cache.Get("linear", key, [&] { return MakeProduct(p); }));
  DPIPE_ASSIGN_OR_RETURN(const Tensor form, entry->form.Get(w));
  if (p.bias) return entry->primitive.Run(device, {from, form.raw_data(), to, bias.raw_data()});
  return entry->primitive.Run(device, {from, form.raw_data(), to});
}

// Rows of bf16 that are widened at a time: their fp32 copies, in and out, fill half of a 1 MiB L2
// cache.
int64_t RowsAtATime(int64_t rows, int64_t width) {
  constexpr int64_t kElements = 131072;
  const int64_t most = std::max<int64_t>(64, kElements / width);
  const int64_t pieces = (rows + most - 1) / most;
  return (rows + pieces - 1) / pieces;
}

absl::Status MultiplyWidened(Product p, const Tensor& from, const Weight& w, const Tensor& bias,
                             Tensor* to) {
  p.dtype = DType::kF32;
  const int64_t rows = p.rows, step = RowsAtATime(rows, p.k + p.n);
  const Tensor wide = Tensor::Empty(from.device(), {step * (p.k + p.n)}, DType::kF32);
  float* const in = wide.data<float>();
  float* const out = in + step * p.k;
  for (int64_t r = 0; r < rows; r += step) {
    p.rows = std::min(step, rows - r);
    Widen(*from.device(), p.rows * p.k, from.data<Bf16>() + r * p.k, in);
    DPIPE_RETURN_IF_ERROR(Multiply(p, from.device(), in, w, bias, out));
    Narrow(*from.device(), p.rows * p.n, out, to->data<Bf16>() + r * p.n);
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Apply(bool forward, const Tensor& from, const Weight& w,
                             const Tensor& bias) {
  const int64_t out = w.shape()[0], in = w.shape()[1];
  const int64_t k = forward ? in : out, n = forward ? out : in;
  Shape shape = from.shape();
  shape.Set(-1, n);
  Tensor to = Tensor::Empty(from.device(), shape, from.dtype());
  const int64_t rows = from.num_elements() / k;
  if (rows == 0) return to;
  const Product p = {rows, k, n, forward, bias.defined(), from.dtype()};
  if (from.dtype() == DType::kBf16 && !onednn::NativeBf16()) {
    DPIPE_RETURN_IF_ERROR(MultiplyWidened(p, from, w, bias, &to));
  } else {
    DPIPE_RETURN_IF_ERROR(Multiply(p, from.device(), from.raw_data(), w, bias, to.raw_data()));
  }
  return to;
}

// dw [out, in] += dy^T [out, rows] x [rows, in] in fp32.
absl::Status AddWeightGrad(int64_t rows, int64_t in, int64_t out, const float* x, const float* dy,
                           float* dw) {
  return onednn::Gemm(true, false, out, in, rows, dy, out, x, in, 1.0f, dw, in);
}

absl::Status AddWeightGradWidened(int64_t rows, int64_t in, int64_t out, const Tensor& x,
                                  const Tensor& dy, float* dw) {
  const int64_t step = RowsAtATime(rows, in + out);
  const Tensor wide = Tensor::Empty(x.device(), {step * (in + out)}, DType::kF32);
  float* const wide_x = wide.data<float>();
  float* const wide_dy = wide_x + step * in;
  for (int64_t r = 0; r < rows; r += step) {
    const int64_t count = std::min(step, rows - r);
    Widen(*x.device(), count * in, x.data<Bf16>() + r * in, wide_x);
    Widen(*x.device(), count * out, dy.data<Bf16>() + r * out, wide_dy);
    DPIPE_RETURN_IF_ERROR(AddWeightGrad(count, in, out, wide_x, wide_dy, dw));
  }
  return absl::OkStatus();
}

// The same product with bf16 instructions.
onednn::Primitive MakeNativeWeightGrad(int64_t rows, int64_t in, int64_t out) {
  const auto bf16 = dnnl::memory::data_type::bf16;
  const Desc dy(Dims{out, rows}, bf16, Tag::ba), x(Dims{rows, in}, bf16, Tag::ab);
  const Desc dw(Dims{out, in}, dnnl::memory::data_type::f32, Tag::ab);
  dnnl::primitive_attr attr = onednn::UserScratchpad();
  dnnl::post_ops add;
  add.append_sum(1.0f);
  attr.set_post_ops(add);
  const auto desc = onednn::Describe<dnnl::matmul>(attr, dy, x, dw);
  return onednn::Primitive("linear's weight gradient", dnnl::matmul(desc), desc.scratchpad_desc(),
                           {{DNNL_ARG_SRC, dy}, {DNNL_ARG_WEIGHTS, x}, {DNNL_ARG_DST, dw}});
}

absl::Status AddWeightGradNative(int64_t rows, int64_t in, int64_t out, const Tensor& x,
                                 const Tensor& dy, Tensor* dw) {
  thread_local onednn::PrimitiveCache<onednn::Primitive> cache;
  DPIPE_ASSIGN_OR_RETURN(const onednn::Primitive* primitive,
                         cache.Get("linear's weight gradient", {rows, in, out},
                                   [&] { return MakeNativeWeightGrad(rows, in, out); }));
  return primitive->Run(x.device(), {dy.raw_data(), x.raw_data(), dw->raw_data()});
}

}  // namespace

absl::StatusOr<Tensor> LinearForward(const Tensor& x, const Weight& w, const Tensor& bias) {
  return Apply(/*forward=*/true, x, w, bias);
}

absl::StatusOr<Tensor> LinearInputGrad(const Tensor& dy, const Weight& w) {
  return Apply(/*forward=*/false, dy, w, Tensor());
}

absl::Status LinearWeightGrad(const Tensor& x, const Tensor& dy, Tensor* dw, Tensor* db) {
  const int64_t out = dw->dim(0), in = dw->dim(1), rows = x.num_elements() / in;
  if (rows == 0) return absl::OkStatus();
  if (db != nullptr) AddBiasGrad(dy, db);
  if (x.dtype() == DType::kF32) {
    return AddWeightGrad(rows, in, out, x.data<float>(), dy.data<float>(), dw->data<float>());
  }
  if (onednn::NativeBf16()) return AddWeightGradNative(rows, in, out, x, dy, dw);
  return AddWeightGradWidened(rows, in, out, x, dy, dw->data<float>());
}

}  // namespace dpipe::ops::cpu

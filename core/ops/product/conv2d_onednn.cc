#include "core/ops/onednn/onednn.h"
#include "core/ops/product/bias_grad.h"
#include "core/ops/product/conv2d_gemm.h"
#include "core/ops/product/conv2d_kernels.h"
#include "core/ops/product/linear_kernels.h"
#include "core/ops/support/convert.h"

namespace dpipe::ops::cpu {
namespace {

using onednn::Desc;
using onednn::Dims;
using onednn::Tag;

// A convolution's sizes in oneDNN's order: images are NCHW for any layout.
struct Geometry {
  Geometry(const Conv2dParams& p, const Shape& x_shape, const Shape& w_shape, DType element_type)
      : params(p),
        x(x_shape),
        w(w_shape),
        y(Conv2dOutputShape(p, x_shape, w_shape)),
        dtype(element_type) {}

  Dims x_dims() const { return {x[0], x[3], x[1], x[2]}; }
  Dims y_dims() const { return {y[0], y[3], y[1], y[2]}; }
  Dims w_dims() const { return {w[0], w[1], w[2], w[3]}; }
  Dims strides() const { return {params.stride, params.stride}; }
  Dims padding_begin() const { return {params.pad_top, params.pad_left}; }
  Dims padding_end() const { return {params.pad_bottom, params.pad_right}; }
  Desc x_desc() const { return {x_dims(), onednn::ToDataType(dtype), Tag::nhwc}; }
  Desc y_desc() const { return {y_dims(), onednn::ToDataType(dtype), Tag::nhwc}; }
  Desc any_weights() const { return {w_dims(), onednn::ToDataType(dtype), Tag::any}; }
  Desc master() const { return {w_dims(), dnnl::memory::data_type::f32, Tag::oihw}; }
  Desc bias() const { return {{w[0]}, dnnl::memory::data_type::f32, Tag::a}; }

  onednn::Key key(bool with_bias) const {
    return {x[0],
            x[1],
            x[2],
            x[3],
            w[0],
            w[2],
            w[3],
            params.stride,
            params.pad_top,
            params.pad_bottom,
            params.pad_left,
            params.pad_right,
            static_cast<int64_t>(dtype),
            with_bias};
  }

  Conv2dParams params;
  Shape x, w, y;
  DType dtype;
};

// True if a convolution is a linear layer over the channels of each pixel.
bool IsPointwise(const Conv2dParams& p, const Shape& w) {
  return w[2] == 1 && w[3] == 1 && p.stride == 1 && p.pad_top == 0 && p.pad_bottom == 0 &&
         p.pad_left == 0 && p.pad_right == 0;
}

dnnl::convolution_forward::primitive_desc ForwardDesc(const Geometry& g, bool with_bias) {
  const auto describe = [&](const auto&... descs) {
    return onednn::Describe<dnnl::convolution_forward>(
        onednn::UserScratchpad(), dnnl::prop_kind::forward_training,
        dnnl::algorithm::convolution_direct, descs..., g.strides(), g.padding_begin(),
        g.padding_end());
  };
  return with_bias ? describe(g.x_desc(), g.any_weights(), g.bias(), g.y_desc())
                   : describe(g.x_desc(), g.any_weights(), g.y_desc());
}

// Forward or input gradient: a primitive and the weight's form that it needs.
struct WeightedEntry {
  onednn::Primitive primitive;
  onednn::WeightForm form;
};

WeightedEntry MakeForward(const Geometry& g, bool with_bias) {
  const auto desc = ForwardDesc(g, with_bias);
  std::vector<onednn::Primitive::Argument> arguments = {{DNNL_ARG_SRC, g.x_desc()},
                                                        {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                                        {DNNL_ARG_DST, g.y_desc()}};
  if (with_bias) arguments.push_back({DNNL_ARG_BIAS, g.bias()});
  return {onednn::Primitive("conv2d", dnnl::convolution_forward(desc), desc.scratchpad_desc(),
                            arguments),
          onednn::WeightForm(g.master(), desc.weights_desc())};
}

WeightedEntry MakeInputGrad(const Geometry& g) {
  const auto desc = onednn::DescribeBackward<dnnl::convolution_backward_data>(
      onednn::UserScratchpad(), ForwardDesc(g, false), dnnl::algorithm::convolution_direct,
      g.x_desc(), g.any_weights(), g.y_desc(), g.strides(), g.padding_begin(), g.padding_end());
  return {onednn::Primitive("conv2d's input gradient", dnnl::convolution_backward_data(desc),
                            desc.scratchpad_desc(),
                            {{DNNL_ARG_DIFF_DST, g.y_desc()},
                             {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                             {DNNL_ARG_DIFF_SRC, g.x_desc()}}),
          onednn::WeightForm(g.master(), desc.weights_desc())};
}

// The weight gradient has a layout of oneDNN's choice; `add` adds it to the master's.
struct WeightGradEntry {
  onednn::Primitive primitive;
  onednn::Primitive add;
  int64_t gradient_bytes = 0;
};

WeightGradEntry MakeWeightGrad(const Geometry& g) {
  const Desc any(g.w_dims(), dnnl::memory::data_type::f32, Tag::any);
  const auto desc = onednn::DescribeBackward<dnnl::convolution_backward_weights>(
      onednn::UserScratchpad(), ForwardDesc(g, false), dnnl::algorithm::convolution_direct,
      g.x_desc(), any, g.y_desc(), g.strides(), g.padding_begin(), g.padding_end());
  const Desc gradient = desc.diff_weights_desc();
  dnnl::primitive_attr attr = onednn::UserScratchpad();
  dnnl::post_ops sum;
  sum.append_sum(1.0f);
  attr.set_post_ops(sum);
  const dnnl::reorder::primitive_desc add(onednn::CpuEngine(), gradient, onednn::CpuEngine(),
                                          g.master(), attr);
  return {onednn::Primitive("conv2d's weight gradient", dnnl::convolution_backward_weights(desc),
                            desc.scratchpad_desc(),
                            {{DNNL_ARG_SRC, g.x_desc()},
                             {DNNL_ARG_DIFF_DST, g.y_desc()},
                             {DNNL_ARG_DIFF_WEIGHTS, gradient}}),
          onednn::Primitive("adding conv2d's weight gradient", dnnl::reorder(add),
                            add.scratchpad_desc(),
                            {{DNNL_ARG_FROM, gradient}, {DNNL_ARG_TO, g.master()}}),
          static_cast<int64_t>(gradient.get_size())};
}

absl::StatusOr<Tensor> Forward(const Geometry& g, const Tensor& x, const Weight& w,
                               const Tensor& bias) {
  thread_local onednn::PrimitiveCache<WeightedEntry> cache;
  const bool with_bias = bias.defined();
  DPIPE_ASSIGN_OR_RETURN(const WeightedEntry* entry, cache.Get("conv2d", g.key(with_bias), [&] {
    return MakeForward(g, with_bias);
  }));
  DPIPE_ASSIGN_OR_RETURN(const Tensor form, entry->form.Get(w));
  Tensor y = Tensor::Empty(x.device(), g.y, g.dtype);
  DPIPE_RETURN_IF_ERROR(
      with_bias ? entry->primitive.Run(
                      x.device(), {x.raw_data(), form.raw_data(), y.raw_data(), bias.raw_data()})
                : entry->primitive.Run(x.device(), {x.raw_data(), form.raw_data(), y.raw_data()}));
  return y;
}

absl::StatusOr<Tensor> InputGrad(const Geometry& g, const Tensor& dy, const Weight& w) {
  thread_local onednn::PrimitiveCache<WeightedEntry> cache;
  DPIPE_ASSIGN_OR_RETURN(
      const WeightedEntry* entry,
      cache.Get("conv2d's input gradient", g.key(false), [&] { return MakeInputGrad(g); }));
  DPIPE_ASSIGN_OR_RETURN(const Tensor form, entry->form.Get(w));
  Tensor dx = Tensor::Empty(dy.device(), g.x, g.dtype);
  DPIPE_RETURN_IF_ERROR(
      entry->primitive.Run(dy.device(), {dy.raw_data(), form.raw_data(), dx.raw_data()}));
  return dx;
}

absl::Status WeightGrad(const Geometry& g, const Tensor& x, const Tensor& dy, Tensor* dw) {
  thread_local onednn::PrimitiveCache<WeightGradEntry> cache;
  DPIPE_ASSIGN_OR_RETURN(
      const WeightGradEntry* entry,
      cache.Get("conv2d's weight gradient", g.key(false), [&] { return MakeWeightGrad(g); }));
  const Tensor gradient = Tensor::Empty(x.device(), {(entry->gradient_bytes + 3) / 4}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(
      entry->primitive.Run(x.device(), {x.raw_data(), dy.raw_data(), gradient.raw_data()}));
  return entry->add.Run(x.device(), {gradient.raw_data(), dw->raw_data()});
}

bool IsWidened(const Tensor& t) { return t.dtype() == DType::kBf16 && !onednn::NativeBf16(); }

// True for products in fp32 with the master itself.
bool IsGemm(const Conv2dParams& params, const Tensor& t, const Shape& x, const Shape& w) {
  return (t.dtype() == DType::kF32 || IsWidened(t)) && PrefersGemm(params, x, w);
}

}  // namespace

absl::StatusOr<Tensor> Conv2dForward(const Conv2dParams& params, const Tensor& x, const Weight& w,
                                     const Tensor& bias) {
  if (IsPointwise(params, w.shape())) return LinearForward(x, w, bias);
  if (IsGemm(params, x, x.shape(), w.shape())) return GemmConv2dForward(params, x, w, bias);
  if (!IsWidened(x)) {
    return Forward(Geometry(params, x.shape(), w.shape(), x.dtype()), x, w, bias);
  }
  const Geometry g(params, x.shape(), w.shape(), DType::kF32);
  DPIPE_ASSIGN_OR_RETURN(const Tensor y, Forward(g, Widened(x), w, bias));
  return Narrowed(y);
}

absl::StatusOr<Tensor> Conv2dInputGrad(const Conv2dParams& params, const Tensor& dy,
                                       const Weight& w, const Shape& x_shape) {
  if (IsPointwise(params, w.shape())) return LinearInputGrad(dy, w);
  if (IsGemm(params, dy, x_shape, w.shape())) return GemmConv2dInputGrad(params, dy, w, x_shape);
  if (!IsWidened(dy)) {
    return InputGrad(Geometry(params, x_shape, w.shape(), dy.dtype()), dy, w);
  }
  const Geometry g(params, x_shape, w.shape(), DType::kF32);
  DPIPE_ASSIGN_OR_RETURN(const Tensor dx, InputGrad(g, Widened(dy), w));
  return Narrowed(dx);
}

absl::Status Conv2dWeightGrad(const Conv2dParams& params, const Tensor& x, const Tensor& dy,
                              Tensor* dw, Tensor* db) {
  if (IsPointwise(params, dw->shape())) return LinearWeightGrad(x, dy, dw, db);
  if (db != nullptr) AddBiasGrad(dy, db);
  if (IsGemm(params, x, x.shape(), dw->shape())) return GemmConv2dWeightGrad(params, x, dy, dw);
  const bool widened = IsWidened(x);
  const Geometry g(params, x.shape(), dw->shape(), widened ? DType::kF32 : x.dtype());
  if (!widened) return WeightGrad(g, x, dy, dw);
  return WeightGrad(g, Widened(x), Widened(dy), dw);
}

}  // namespace dpipe::ops::cpu
